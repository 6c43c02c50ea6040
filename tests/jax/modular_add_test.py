"""modular_add: values, every dtype and shape, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import said

from xla_ffi_kit import modular_add

jax.config.update("jax_enable_x64", True)

DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)


def make(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(0, 100, shape), dtype)


def expected(b, c):
    index = np.arange(c.shape[-1]) % max(1, b.shape[-1])
    return np.asarray(b)[..., index] + np.asarray(c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m"), [(3, 7), (7, 3), (33, 33)])
def test_every_dtype(n, m, dtype):
    b, c = make((2, n), dtype), make((2, m), dtype, 1)
    got = modular_add(b, c)
    assert got.dtype == c.dtype
    np.testing.assert_array_equal(got, expected(b, c))


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize(
    ("n", "m"), [(1, 1), (128, 1024), (3, 7), (5, 0), (0, 0)]
)
def test_every_shape(n, m, batch):
    b, c = make((*batch, n), "int16"), make((*batch, m), "int16", 1)
    want = expected(b, c) if m else np.zeros((*batch, 0))
    np.testing.assert_array_equal(modular_add(b, c), want)
    np.testing.assert_array_equal(jax.jit(modular_add)(b, c), want)


def test_integers_wrap_around():
    b, c = jnp.array([100], jnp.int8), jnp.array([100, -100], jnp.int8)
    np.testing.assert_array_equal(
        modular_add(b, c), np.array([-56, 0], np.int8)
    )


# What the error says of b and c.
BAD = {
    "ValueError: operand b: expected rank >= 1, got rank 0": (1.0, np.ones(3)),
    "TypeError: operand c: expected dtype int32 as operand b has, got int64": (
        np.ones(3, np.int32),
        np.ones(3, np.int64),
    ),
    "ValueError: operand c: expected batch dimensions [2] as operand b has, "
    "got [4]": (np.ones((2, 3)), np.ones((4, 3))),
    "ValueError: operand b: expected axis -1 of size >= 1, got 0 (shape [0])": (
        np.ones(0),
        np.ones(3),
    ),
    f"TypeError: operand b: expected dtype {', '.join(DTYPES)}, got bool": (
        np.ones(3, bool),
        np.ones(3, bool),
    ),
    "TypeError: operand b: expected an array, got None (NoneType)": (
        None,
        np.ones(3),
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input(message):
    got = said(modular_add, *BAD[message], of="xla_ffi_kit.modular_add")
    assert got == message
