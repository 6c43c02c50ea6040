"""Python's numbers as operands have the dtype that the operation takes."""

import ctypes.util

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import said

from xla_ffi_kit import FfiOp, c_function

LIBM = ctypes.util.find_library("m")
jn = c_function("double(int n, double x)", library=LIBM, symbol="jn")
cbrtf = c_function(
    "float(float x)",
    library=LIBM,
    symbol="cbrtf",
    jvp=lambda xs, ts: (cbrtf(*xs), ts[0] / (3 * cbrtf(*xs) ** 2)),
)


def small_sum(x, y):
    return x + y.astype(x.dtype)


small = FfiOp(
    "small",
    small_sum,
    kernel_axes=0,
    dtypes=["f32,i8", "f64,i8"],
    handlers={},
)


@pytest.fixture(autouse=True, params=[False, True])
def x64(request):
    with jax.enable_x64(request.param):
        yield request.param


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit])
def test_a_number_has_the_parameters_dtype(wrap, x64):
    assert wrap(cbrtf)(8.0) == wrap(cbrtf)(8) == 2
    assert wrap(cbrtf)(8).dtype == np.float32
    assert jax.grad(wrap(cbrtf))(8.0) == np.float32(1 / 12)
    if x64:
        assert abs(wrap(jn)(2, 1.0) - 0.114903484931900) < 1e-14
        assert abs(wrap(jn)(2, 1) - 0.114903484931900) < 1e-14


def test_a_weak_array_is_such_a_number():
    for x in (jnp.asarray(8.0), jnp.asarray(8)):
        assert x.weak_type
        assert cbrtf(x).dtype == np.float32
        assert jax.vmap(cbrtf)(x[None]).tolist() == [2]


def test_only_an_operand_of_one_dtype_tells_it(x64):
    wide = np.float64 if x64 else np.float32
    for implementation in (None, "reference"):
        for x, y in [(2.0, 3), (jnp.asarray(2.0), jnp.asarray(3))]:
            got = small(x, y, implementation=implementation)
            assert (got, got.dtype) == (5, wide)


@pytest.mark.filterwarnings("error")
def test_a_double_needs_x64(x64):
    if not x64:
        assert said(jn, 2, 1.0) == (
            "TypeError: jn: operand x: expected dtype float64 as operand n "
            "has, got float32; JAX has no float64 unless jax_enable_x64 is set"
        )
