"""accelerate: searches and cumulative operations as JAX has them, bit for bit.

The fuzzer draws shapes, dtypes and values.
"""

import functools
import mmap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import (
    DTYPES,
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
INTEGERS = [d for d in DTYPES if "int" in d]
TARGET = "@xla_ffi_accelerate.{}("


def test_searches_of_every_dtype():
    lines = [rows(dtype, 33) for dtype in DTYPES]
    lines += [rows("bfloat16", 16), rows("float32", 2100)]
    columns = [x.T for x in lines[-2:]]
    f = {"lines": along(-1, *SEARCHES), "columns": along(0, *SEARCHES)}
    check_equal(
        {"lines": (f["lines"], lines), "columns": (f["columns"], columns)}
    )


def test_dtypes_of_indices():
    x = rows("float32", 100)
    check_equal(
        {
            dtype: (
                functools.partial(jax.lax.argmax, axis=1, index_dtype=dtype),
                (x,),
            )
            for dtype in ("int32", "int64", "uint32", "uint64", "int8")
        }
    )


def test_integers():
    lines = [rows(dtype, 290) for dtype in INTEGERS]
    short = np.tile(rows("int32", 16), (40, 1))
    check_equal(
        {
            "lines": (along(-1, *CUMULATIVE), lines),
            "from the end": (
                along(-1, *CUMULATIVE, reverse=True),
                [rows("int32", 290), rows("uint8", 290)],
            ),
            "short": (along(-1, *CUMULATIVE), [short[:, :8], short]),
            "columns": (along(0, *CUMULATIVE), [lines[0].T, short.T]),
        },
        names=["cumprod"],
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats(dtype):
    """Sums and products depend on the order, and one NaN keeps its bits."""
    special = rows(dtype, 290)
    lines = [finite(dtype, n) for n in (128, 4500)]
    lines.append(finite(dtype, 1600).reshape(-1, 16))
    unsigned = f"uint{8 * jnp.dtype(dtype).itemsize}"
    nan = np.full((), -np.nan, dtype).view(unsigned) + np.ones((), unsigned)
    x = np.ones((3, 300), dtype)
    x[1:, 5] = nan.view(dtype)
    sums = ("cumsum", "cumprod")
    check_equal(
        {
            "special": (along(-1, *CUMULATIVE), [special]),
            "from the end": (
                along(-1, *CUMULATIVE, reverse=True),
                [special],
            ),
            "lines": (along(-1, *sums), lines),
            "columns": (along(0, *sums), [x.T for x in lines]),
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


def test_every_axis():
    x = finite("float32", 40 * 50 * 2).reshape(3, 40, 50, 2)
    k = np.arange(x.size, dtype=np.int32).reshape(x.shape) * 7919 % 1000
    check_equal(
        {
            f"axis {axis}": (along(axis, "argmin", "cumsum"), (x, k))
            for axis in range(4)
        }
    )


def test_transformations():
    x = finite("float32", 50)

    def loss(x):
        return (jnp.cumsum(x, 1) * x[:, ::-1]).sum()

    check_equal(
        {
            "grad": (jax.grad(loss), (x,)),
            "vmap": (jax.vmap(jnp.cumsum, 1, 1), (x,)),
            "nonzero": (lambda x: jnp.nonzero(x > 1, size=40), (x,)),
            "argmax": (jax.vmap(jnp.argmax, 1), (x.repeat(20, 0),)),
            "gumbel": (
                lambda k: jax.random.categorical(k, jnp.arange(300.0)),
                (jax.random.key(0),),
            ),
            "argmax of cumsum": (
                lambda x: jnp.argmax(jnp.cumsum(x, axis=1), axis=1),
                (x,),
            ),
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


def logsumexp(x, axis=0, reverse=False):
    """With the kit, without, and exactly."""
    f = functools.partial(jax.lax.cumlogsumexp, axis=axis, reverse=reverse)
    assert LOGSUMEXP in program(f, x, names=["cumlogsumexp"])
    with xla_ffi_accelerate.disabled():
        want = np.asarray(f(x))
    with xla_ffi_accelerate.enabled("cumlogsumexp"):
        got = np.asarray(f(x))
    turned = (lambda y: np.flip(y, axis)) if reverse else lambda y: y
    exact = np.logaddexp.accumulate(turned(x.astype(np.longdouble)), axis)
    return got, want, turned(exact)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bound_of_cumlogsumexp(dtype):
    random = np.random.default_rng(0)
    x = random.standard_normal((4, 700, 2)).astype(dtype)
    for scale in (0, 1, 30, 1e3, 1e30):
        y = (scale * x).astype(dtype)
        for axis, reverse in ((0, False), (1, True), (1, False)):
            got, want, right = logsumexp(y, axis, reverse)
            bound = 8 * np.finfo(dtype).eps * (np.abs(y).max() + 7)
            assert np.abs(got - right).max() <= bound
            # XLA adds its errors up.
            assert np.abs(want - right).max() <= 100 * bound


def test_special_values_of_cumlogsumexp():
    inf, nan = np.inf, np.nan
    x = np.float32(
        [
            [-inf, -inf, 1, -inf, 2],
            [-inf, inf, 1, -inf, inf],
            [inf, inf, nan, 1, 2],
            [0, nan, 1, inf, -inf],
            [-inf, -inf, -inf, -inf, -inf],
            [1e-45, -1e-45, 0, -0.0, 3e38],
        ]
    )
    for reverse in (False, True):
        got, want, _ = logsumexp(x, 1, reverse)
        np.testing.assert_allclose(got, want, rtol=1e-6)
    line = np.random.default_rng(2).standard_normal(300_000).astype("f")
    got, _, right = logsumexp(line)
    np.testing.assert_allclose(got, right.astype(float), rtol=2e-6)


def test_transformations_of_cumlogsumexp():
    """Derivatives stay JAX's own."""
    x = np.random.default_rng(2).standard_normal((5, 300, 4))
    mapped = jax.jit(jax.vmap(jax.lax.cumlogsumexp, 1, 2))
    slope = jax.jit(jax.grad(lambda x: (jax.lax.cumlogsumexp(x) ** 2).sum()))
    want = mapped(x), slope(x[:, 0, 0])
    with xla_ffi_accelerate.enabled("cumlogsumexp"):
        assert LOGSUMEXP in mapped.lower(x).as_text()
        np.testing.assert_allclose(mapped(x), want[0], rtol=1e-12)
        assert bits(slope(x[:, 0, 0])) == bits(want[1])


def test_cumlogsumexp_is_asked_for_by_name():
    f, x = jax.lax.cumlogsumexp, jnp.ones(90)
    assert LOGSUMEXP not in program(f, x)
    with xla_ffi_accelerate.enabled(exact=False):
        assert xla_ffi_accelerate.status()["cumlogsumexp"] == "close"
    names = ["cumlogsumexp"]
    assert LOGSUMEXP in program(f, x[:4], names=names)
    for few in (x[:3], x.astype(jnp.float16), x[:0]):
        assert LOGSUMEXP not in program(f, few, names=names)
