"""accelerate: searches and cumulative sums as JAX has them, bit for bit.

The fuzzer draws shapes, axes, dtypes, values and transformations.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import along, check_equal, program

import xla_ffi_accelerate
from xla_ffi_accelerate import registry

jax.config.update("jax_enable_x64", True)

SEARCHES = ("argmax", "argmin")
FLOATS = ("float16", "bfloat16", "float32", "float64")
TARGET = "@xla_ffi_accelerate.{}("


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_nan_keeps_its_bits(dtype):
    """To the fuzzer, all NaNs are equal."""
    unsigned = f"uint{8 * jnp.dtype(dtype).itemsize}"
    nan = np.full((), -np.nan, dtype).view(unsigned) + np.ones((), unsigned)
    x = np.ones((3, 300), dtype)
    x[1:, 5] = nan.view(dtype)
    check_equal(
        {
            "one NaN": (lambda x: jax.lax.cumsum(x, 1), (x,)),
            "in columns": (lambda x: jax.lax.cumsum(x.T, 0), (x,)),
        },
    )


@pytest.mark.parametrize("name", [*SEARCHES, "cumsum"])
def test_switched_by_name(name):
    x = jnp.arange(450)
    call = TARGET.format("argmax" if name in SEARCHES else "cumulative")
    assert call in program(along(0, name), x, names=[name])
    assert call not in program(along(0, name), x, names=["sort"])
    short = jnp.ones((200, 8), x.dtype)
    # XLA's is as fast.
    for few in (x[:8], x[:128] if name == "cumsum" else short):
        assert call not in program(along(-1, name), few, names=[name])
    if name in SEARCHES:
        for dtype, is_called in ((jnp.float32, False), (jnp.bfloat16, True)):
            few = jnp.ones((8, 16), dtype)
            text = program(along(-1, name), few, names=[name])
            assert (call in text) == is_called
        search = getattr(jax.lax, name)
        for kind in ("int32", "int64", "uint32", "uint64", "int8"):
            f = functools.partial(search, axis=0, index_dtype=kind)
            is_called = call in program(f, x[:300], names=[name])
            assert is_called == (kind != "int8")
    if name == "cumsum":
        few = jnp.ones((4, 32), x.dtype)
        assert call not in program(along(-1, name), few, names=[name])
        assert call in program(along(-1, name), short, names=[name])


@pytest.mark.parametrize("name", SEARCHES)
def test_two_or_three_columns_of_integers_are_left_to_jax(name):
    """For which the kernel has twice as many instructions as XLA's code."""
    call = TARGET.format("argmax")
    for dtype in ("int16", "float32"):
        for columns in (1, 2, 3, 4):
            x = jnp.ones((9, 33, columns), dtype)
            is_called = call in program(along(1, name), x, names=[name])
            assert is_called == (dtype == "float32" or columns not in (2, 3))


def test_indices_up_to_2_to_the_31():
    """Their values are in huge_sizes_test."""
    search = lambda x: jax.lax.argmax(x, x.ndim - 1, jnp.int32)  # noqa: E731
    call, limit = TARGET.format("argmax"), 2**31
    for shape in ((limit,), (3, limit // 2), (limit + 1,)):
        x = jax.ShapeDtypeStruct(shape, np.int8)
        assert (call in program(search, x)) == (shape[-1] <= limit)


def test_indices_of_a_program_that_is_lowered_without_x64():
    x = jnp.ones(400, jnp.float32).at[7].set(2)
    with xla_ffi_accelerate.enabled("argmax"):
        traced = jax.jit(lambda x: jax.lax.argmax(x, 0, np.int64)).trace(x)
        with jax.enable_x64(False):
            lowered = traced.lower()
    assert TARGET.format("argmax") in lowered.as_text()
    index = lowered.compile()(x)
    assert (index, index.dtype) == (7, np.int64)


def test_what_xla_reads_as_zero_is_a_tie():
    tiny = jnp.finfo(jnp.bfloat16).smallest_subnormal
    x = jnp.zeros((300, 40), jnp.bfloat16).at[:, 5].set(tiny)
    check_equal({"argmax": (lambda x: jnp.argmax(x, -1), (x,))})


def test_cumulative_sums_of_bools_are_refused():
    x = np.ones((40, 50), bool)
    with pytest.raises(TypeError, match="bool"), xla_ffi_accelerate.enabled():
        jax.lax.cumsum(x, 1)
    for rule in registry.RULES["cumsum"]:
        parameters = {"axis": 1, "reverse": False}
        covers = rule.reason([jax.typeof(jnp.asarray(x))], parameters)
        assert covers is not None
