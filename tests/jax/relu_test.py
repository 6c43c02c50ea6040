"""relu: values, every dtype, the derivative at 0, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import said

from xla_ffi_kit import relu

jax.config.update("jax_enable_x64", True)

DTYPES = (
    *("float8_e5m2", "float16", "bfloat16", "float32", "float64"),
    *("int8", "int16", "int32", "int64"),
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (37,), (3, 0), (2, 3, 5)])
def test_values(shape, dtype):
    x = np.random.default_rng(0).integers(-9, 9, shape)
    x = jnp.asarray(x, dtype)
    want = np.maximum(np.asarray(x), np.zeros((), x.dtype))
    for f in (relu, jax.jit(relu)):
        assert f(x).dtype == x.dtype
        np.testing.assert_array_equal(f(x), want)


@pytest.mark.parametrize("dtype", DTYPES[:5])
def test_special_values(dtype):
    x = jnp.array([np.nan, np.inf, -np.inf, -0.0, 0.0], dtype)
    want = np.array([np.nan, np.inf, 0, 0, 0])
    np.testing.assert_array_equal(np.asarray(relu(x), np.float64), want)


def test_derivative_at_zero_is_zero():
    x = jnp.array([-1.0, -0.0, 0.0, 2.0])
    got = jax.grad(lambda x: relu(x).sum())(x)
    np.testing.assert_array_equal(got, [0, 0, 0, 1])
    np.testing.assert_array_equal(jax.jacfwd(relu)(x), np.diag(got))


@pytest.mark.parametrize("dtype", ["uint8", "bool", "complex64"])
def test_bad_dtype(dtype):
    assert said(relu, np.ones(3, dtype)) == (
        "TypeError: xla_ffi_kit.relu: operand x: expected dtype "
        f"{', '.join(DTYPES)}, got {dtype}"
    )
