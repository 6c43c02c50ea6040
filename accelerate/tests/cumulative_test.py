"""accelerate: cumulative operations as JAX has them, bit for bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, along, bits, finite, rows
from accelerate_data import check_equal as check_exact

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

CUMULATIVE = ("cumsum", "cumprod", "cummax", "cummin")
FLOATS = ("float16", "bfloat16", "float32", "float64")
# Of floats, "cumprod" is close: XLA may round what uses it once, with it.
check_equal = functools.partial(check_exact, names=("cumprod",))
NUMBERS = [d for d in DTYPES if d != "bool"]


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
    check_equal({"x": (along(-1, "cumsum"), (x, every))})


def test_long_lines_of_extremes():
    x = rows("float32", 300_000)[1][:, None] + np.zeros(2, np.float32)
    columns = along(0, "cummax", "cummin")
    ends = along(0, "cummax", "cummin", reverse=True)
    line = np.where(np.isnan(x[:, 0]), 1, x[:, 0])
    check_equal(
        {
            "columns": (columns, (x,)),
            "line": (columns, (line,)),
            "from the end": (ends, (line, x[:, 0])),
        }
    )


def test_every_axis():
    x = finite("float32", 40 * 50 * 2).reshape(3, 40, 50, 2)
    k = np.arange(x.size, dtype=np.int32).reshape(x.shape) * 7919 % 1000
    check_equal(
        {f"axis {axis}": (along(axis, "cumsum"), (x, k)) for axis in range(4)}
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
        }
    )


@pytest.mark.parametrize("name", CUMULATIVE)
def test_switched_by_name(name):
    x = jnp.arange(450)
    f, call = along(0, name), "xla_ffi_accelerate.cumulative"
    with xla_ffi_accelerate.enabled(name):
        assert call in f.lower(x).as_text()
        for few in (x[:8], x[:128], jnp.ones((4, 32), x.dtype)):
            # XLA's is as fast.
            assert call not in along(-1, name).lower(few).as_text()
        short = jnp.ones((200, 8), x.dtype)
        assert call in along(-1, name).lower(short).as_text()
        with xla_ffi_accelerate.disabled(), xla_ffi_accelerate.enabled("sort"):
            assert call not in f.lower(x).as_text()


def test_threads_share_the_lines():
    x = np.random.default_rng(0).standard_normal((700, 900), np.float32)
    f = jax.jit(lambda x: (jnp.cumsum(x, 0), jnp.cumsum(x, 1)))
    want = bits(f(x))
    with xla_ffi_accelerate.enabled():
        assert bits(f(x)) == want
