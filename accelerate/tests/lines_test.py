"""accelerate: searches and cumulative operations as JAX has them, bit for bit.

The fuzzer draws shapes, axes, dtypes, values and transformations; it compares
cumlogsumexp with its bound.
"""

import functools
import mmap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import (
    along,
    bits,
    check_equal,
    finite,
    program,
    rows,
)

import xla_ffi_accelerate
from xla_ffi_accelerate import registry

jax.config.update("jax_enable_x64", True)

SEARCHES = ("argmax", "argmin")
CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin")
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
            "of products": (lambda x: jax.lax.cumprod(x[:, :290], 1), (x,)),
            "in columns": (lambda x: jax.lax.cumsum(x.T, 0), (x,)),
        },
        names=["cumprod"],
    )


def test_long_lines():
    """Which threads share, as they share many lines."""
    x = rows("float32", 300_000)
    line = np.where(np.isnan(x[1]), 1, x[1])
    many = np.random.default_rng(0).standard_normal((700, 900), np.float32)
    extremes = ("cummax", "cummin")
    check_equal(
        {
            "searches": (along(-1, "argmax"), (x[0],)),
            "sums": (
                along(-1, "cumsum"),
                (finite("float32", 300_000)[0], x[0]),
            ),
            "columns": (
                along(0, *extremes),
                (x[1][:, None] + np.zeros(2, "f"),),
            ),
            "line": (along(0, *extremes), (line,)),
            "from the end": (along(0, *extremes, reverse=True), (line, x[1])),
            "many lines": (along(0, "argmax", "cumsum"), (many,)),
            "many": (along(1, "cumsum"), (many,)),
        }
    )


@pytest.mark.parametrize("name", [*SEARCHES, *CUMULATIVE])
def test_switched_by_name(name):
    x = jnp.arange(450)
    call = TARGET.format("argmax" if name in SEARCHES else "cumulative")
    assert call in program(along(0, name), x, names=[name])
    assert call not in program(along(0, name), x, names=["sort"])
    short = jnp.ones((200, 8), x.dtype)
    # XLA's is as fast.
    for few in (x[:8], x[:128] if name in CUMULATIVE else short):
        assert call not in program(along(-1, name), few, names=[name])
    if name in SEARCHES:
        search = getattr(jax.lax, name)
        for kind in ("int32", "int64", "uint32", "uint64", "int8"):
            f = functools.partial(search, axis=0, index_dtype=kind)
            is_called = call in program(f, x[:300], names=[name])
            assert is_called == (kind != "int8")
    if name in CUMULATIVE:
        few = jnp.ones((4, 32), x.dtype)
        assert call not in program(along(-1, name), few, names=[name])
        assert call in program(along(-1, name), short, names=[name])


LIMIT = 2**31  # elements along an axis


def zeros(*shape):
    """int8 zeros, as JAX's array of the same memory, and as NumPy's.

    The memory is one that nothing was written to, of which Linux reads the one
    page of zeros again and again: two gigabytes take none.
    """
    memory = mmap.mmap(
        -1, int(np.prod(shape)), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    )
    array = np.frombuffer(memory, np.int8).reshape(shape)
    return jax.dlpack.from_dlpack(array), array


def test_indices_up_to_2_to_the_31():
    search = lambda x: jax.lax.argmax(x, x.ndim - 1, jnp.int32)  # noqa: E731
    line, memory = zeros(LIMIT)
    memory[-1] = 1
    lines, memory = zeros(3, LIMIT // 2)
    memory[0, 7] = memory[1, -2] = memory[2, -1] = 1
    with xla_ffi_accelerate.enabled():
        assert jax.jit(search)(line) == LIMIT - 1
        np.testing.assert_array_equal(
            jax.jit(search)(lines), [7, LIMIT // 2 - 2, LIMIT // 2 - 1]
        )
    call = TARGET.format("argmax")
    assert call in program(search, line) and call in program(search, lines)
    longer = jax.ShapeDtypeStruct((LIMIT + 1,), np.int8)
    assert call not in program(search, longer)


@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_operations_of_bools_are_refused(name):
    x = np.ones((40, 50), bool)
    with pytest.raises(TypeError, match="bool"), xla_ffi_accelerate.enabled():
        getattr(jax.lax, name)(x, 1)
    for rule in registry.RULES[name]:
        covers = rule.covers(jax.typeof(jnp.asarray(x)), axis=1, reverse=False)
        assert covers is not None


LOGSUMEXP = TARGET.format("cumlogsumexp")


def test_derivatives_of_cumlogsumexp_stay_jax_own():
    x = np.random.default_rng(2).standard_normal(300)
    slope = jax.jit(jax.grad(lambda x: (jax.lax.cumlogsumexp(x) ** 2).sum()))
    want = bits(slope(x))
    with xla_ffi_accelerate.enabled("cumlogsumexp"):
        assert bits(slope(x)) == want


def test_cumlogsumexp_is_asked_for_by_name():
    f, x = jax.lax.cumlogsumexp, jnp.ones(90)
    assert LOGSUMEXP not in program(f, x)
    with xla_ffi_accelerate.enabled(exact=False):
        assert xla_ffi_accelerate.status()["cumlogsumexp"] == "close"
    names = ["cumlogsumexp"]
    assert LOGSUMEXP in program(f, x[:4], names=names)
    for few in (x[:3], x.astype(jnp.float16), x[:0]):
        assert LOGSUMEXP not in program(f, few, names=names)
