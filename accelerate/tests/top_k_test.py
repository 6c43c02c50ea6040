"""accelerate: every top_k bit for bit that of JAX without the kit."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, check_equal, rows

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)


@functools.cache
def top(k, axis=-1):
    return jax.jit(lambda x: jax.lax.top_k(x, k, axis=axis))


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_indices(dtype):
    cases = {}
    for n, k in [(0, 0), (1, 1), (2, 1), (17, 17), (100, 3), (1000, 300)]:
        cases[f"{dtype}[{n}], {k}"] = top(k), (rows(dtype, n),)
    check_equal(cases)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "uint64"])
def test_long_rows(dtype):
    x = rows(dtype, 20_001)
    check_equal({f"{dtype}, {k}": (top(k), (x,)) for k in (1, 64, 15_000)})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_every_pair_of_special_floats(dtype):
    special = rows(dtype, 40)[1]
    pairs = itertools.product(special, special)
    check_equal({dtype: (top(2), (np.array(list(pairs), special.dtype),))})


def test_every_axis():
    x = rows("float32", 60, seed=1).reshape(9, 3, 20)
    check_equal({f"{a}": (top(3, a), (x,)) for a in (0, 1, 2)})


def test_transformations():
    x = rows("float32", 30, seed=4)[2:6]

    def loss(x):
        values, indices = jax.lax.top_k(x, 4)
        return (values * (1 + indices)).sum()

    check_equal(
        {
            "grad": (jax.grad(loss), (x,)),
            "vmap": (jax.vmap(lambda x: jax.lax.top_k(x, 2)[1]), (x,)),
            "vmap of columns": (jax.vmap(loss, 1), (x,)),
            "jvp": (lambda x: jax.jvp(loss, (x,), (x[::-1],)), (x,)),
        }
    )


def test_switched_alone():
    x = jnp.arange(18).reshape(6, 3)
    lower = jax.jit(lambda x: jax.lax.top_k(jnp.sort(x), 2)).lower
    with xla_ffi_accelerate.enabled("top_k"):
        text = lower(x).as_text()
        assert "xla_ffi_accelerate.top_k" in text
        assert "xla_ffi_accelerate.sort" not in text
        with pytest.raises(ValueError, match="no larger than size"):
            jax.lax.top_k(x, 4)
    assert "xla_ffi_accelerate.top_k" not in lower(x).as_text()


def test_few_elements_are_left_to_jax():
    def is_called(shape, k, dtype):
        lowered = jax.jit(lambda x: jax.lax.top_k(x, k)).lower(
            jax.ShapeDtypeStruct(shape, dtype)
        )
        return "xla_ffi_accelerate.top_k" in lowered.as_text()

    with xla_ffi_accelerate.enabled("top_k"):
        assert not is_called((2, 8), 2, "int32")
        assert is_called((17,), 2, "int32") and is_called((17,), 2, "float64")
        # Of f32 XLA has a selection of its own.
        assert not is_called((2, 8), 2, "float32")
        assert is_called((17,), 1, "float32")
        assert is_called((100,), 16, "float32")
        assert not is_called((100,), 17, "float32")
        assert is_called((512,), 256, "float32")
        assert is_called((128, 64), 17, "float32")


def test_threads_share_the_rows():
    x = np.random.default_rng(0).standard_normal((500, 700), np.float32)
    want = bits(top(9)(x))
    with xla_ffi_accelerate.enabled():
        assert bits(top(9)(x)) == want
