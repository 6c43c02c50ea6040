"""accelerate: argmax and cumulative operations bit for bit those of JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, check_equal, rows

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin")
FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = [d for d in DTYPES if d != "bool"]


def along(axis, *names, reverse=False):
    """All the functions at once: compiling takes longer than running."""

    def run(name, x):
        if name.startswith("arg"):
            return getattr(jax.lax, name)(x, axis % x.ndim, jnp.int32)
        y = getattr(jax.lax, name)(x, axis % x.ndim, reverse=reverse)
        if not jnp.issubdtype(y.dtype, jnp.floating):
            return y
        return jnp.where(jnp.isnan(y), jnp.nan, y)  # their bits may differ

    return jax.jit(lambda *arrays: [run(n, x) for n in names for x in arrays])


def finite(dtype, n):
    """Numbers whose sums and products depend on the order."""
    x = np.random.default_rng(n).standard_normal((3, n))
    return (1 + x / 8).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_argmax_and_argmin(dtype):
    lines = [rows(dtype, n) for n in (32, 33, 64, 2100)]
    if dtype == "bfloat16":
        lines.append(rows(dtype, 16))
    check_equal(
        {
            f"{dtype} lines": (along(-1, "argmax", "argmin"), lines),
            f"{dtype} columns": (
                along(0, "argmax", "argmin"),
                [lines[1].T],
            ),
        }
    )


@pytest.mark.parametrize("dtype", NUMBERS)
def test_cumulative(dtype):
    lines = [rows(dtype, n) for n in (17, 290)]
    short = np.tile(rows(dtype, 16), (40, 1))
    check_equal(
        {
            f"{dtype} lines": (along(-1, *CUMULATIVE), lines),
            f"{dtype} from the end": (
                along(-1, *CUMULATIVE, reverse=True),
                lines[:1],
            ),
            f"{dtype} columns": (along(0, "cumsum"), [lines[1].T, short.T]),
            f"{dtype} short lines": (
                along(-1, *CUMULATIVE),
                [short[:, :8], short],
            ),
        }
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_that_depend_on_the_order(dtype):
    lines = [finite(dtype, n) for n in (127, 128, 4500)]
    lines.append(finite(dtype, 1600).reshape(-1, 16))
    check_equal(
        {
            f"{dtype} lines": (along(-1, "cumsum", "cumprod"), lines),
            f"{dtype} columns": (
                along(0, "cumsum", "cumprod"),
                [x.T for x in lines],
            ),
        }
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_nan_keeps_its_bits(dtype):
    unsigned = f"uint{8 * jnp.dtype(dtype).itemsize}"
    nan = np.full((), -np.nan, dtype).view(unsigned) + np.ones((), unsigned)
    x = np.ones((3, 300), dtype)
    x[1:, 5] = nan.view(dtype)

    def f(x):
        lines = jax.lax.cumsum(x, 1), jax.lax.cumprod(x[:, :290], 1)
        return *lines, jax.lax.cumsum(x.T, 0)

    check_equal({dtype: (f, (x,))})


def test_long_lines():
    x = finite("float32", 300_000)[0]
    every = rows("float32", 300_000)[0]
    f = along(-1, "cumsum", "argmax")
    check_equal({"x": (f, (x, every))})


def test_every_axis():
    x = finite("float32", 40 * 50 * 2).reshape(3, 40, 50, 2)
    k = np.arange(x.size, dtype=np.int32).reshape(x.shape) * 7919 % 1000
    check_equal(
        {
            f"axis {axis}": (along(axis, "cumsum", "argmin"), (x, k))
            for axis in range(4)
        }
    )


def test_dtypes_of_indices():
    x = rows("float32", 100)
    cases = {}
    for dtype in ("int32", "int64", "uint32", "uint64", "int8"):
        f = functools.partial(jax.lax.argmax, axis=1, index_dtype=dtype)
        cases[dtype] = f, (x,)
    check_equal(cases)


def test_transformations():
    x = finite("float32", 50)

    def loss(x):
        return (jnp.cumsum(x, 1) * x[:, ::-1]).sum()

    check_equal(
        {
            "grad": (jax.grad(loss), (x,)),
            "vmap": (jax.vmap(jnp.cumsum, 1, 1), (x,)),
            "vmap of argmax": (jax.vmap(jnp.argmax), (x,)),
            "vmap of columns": (jax.vmap(jnp.argmax, 1), (x.repeat(20, 0),)),
            "nonzero": (lambda x: jnp.nonzero(x > 1, size=40), (x,)),
            "gumbel": (
                lambda k: jax.random.categorical(k, jnp.arange(300.0)),
                (jax.random.key(0),),
            ),
            "nested argmax": (
                lambda x: jnp.argmax(jnp.cumsum(x, axis=1), axis=1),
                (x,),
            ),
        }
    )


@pytest.mark.parametrize(
    ("name", "target"),
    [(n, "cumulative") for n in CUMULATIVE]
    + [("argmax", "argmax"), ("argmin", "argmax")],
)
def test_switched_by_name(name, target):
    x = jnp.arange(90).reshape(2, 45)
    lower = jax.jit(getattr(jnp, name, None) or getattr(jax.lax, name)).lower
    call = f"xla_ffi_kit.{target}"
    x = x if name.startswith("arg") else x[0]
    with xla_ffi_kit.accelerate(name):
        assert call in lower(x.ravel()).as_text()
        assert call not in lower(x.ravel()[:8]).as_text()  # XLA's is as fast
        short = jnp.ones((200, 8), x.dtype)
        is_covered = call in along(-1, name).lower(short).as_text()
        assert is_covered == (target == "cumulative")
        with xla_ffi_kit.accelerate(False), xla_ffi_kit.accelerate("sort"):
            assert call not in lower(x.ravel()).as_text()


def test_threads_share_the_lines():
    x = np.random.default_rng(0).standard_normal((700, 900), np.float32)
    f = jax.jit(
        lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1), jnp.argmax(x, 0))
    )
    want = bits(f(x))
    with xla_ffi_kit.accelerate():
        assert bits(f(x)) == want
