"""The example: SciPy's values, the contract, and the fit."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

import bessel
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)


def test_contract():
    n = np.array([[0, 1], [2, 5]], np.int64)
    x = np.array([[0.7, 1.5], [2.5, 4.0]])
    case = Case(n, x)
    report = check_op(bessel.bessel_k, [case], host=scipy.special.kn)
    print(report)
    passed = {row.check for row in report.rows if row.status == "passed"}
    assert {"memory of results", "values", "vmap", "second order"} <= passed
    assert {"auto mesh", "explicit mesh", "export", "jacobians"} <= passed


def test_a_large_array_on_all_threads():
    x = np.linspace(0.1, 9, 30_000).reshape(3, -1)
    n = np.full(x.shape, 3, np.int64)
    got = bessel.bessel_k(n, x)
    np.testing.assert_array_equal(got, scipy.special.kn(n, x))


def test_the_fit():
    ours = bessel.fit(bessel.bessel_k)()
    np.testing.assert_allclose(ours, 0.7, rtol=1e-6)
    np.testing.assert_allclose(ours, bessel.fit(bessel.by_callback)())


def test_single_precision_is_refused():
    with pytest.raises(TypeError, match="operand x: expected dtype float64"):
        bessel.bessel_k(jnp.int64(1), jnp.float32(1))
