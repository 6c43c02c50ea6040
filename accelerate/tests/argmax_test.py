"""accelerate: argmax and argmin as JAX has them, bit for bit."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, along, bits, check_equal, finite, rows

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)


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


def test_long_lines():
    x = rows("float32", 300_000)[0]
    check_equal({"x": (along(-1, "argmax"), (x,))})


def test_every_axis():
    x = finite("float32", 40 * 50 * 2).reshape(3, 40, 50, 2)
    k = np.arange(x.size, dtype=np.int32).reshape(x.shape) * 7919 % 1000
    check_equal(
        {f"axis {axis}": (along(axis, "argmin"), (x, k)) for axis in range(4)}
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
    check_equal(
        {
            "vmap": (jax.vmap(jnp.argmax), (x,)),
            "vmap of columns": (jax.vmap(jnp.argmax, 1), (x.repeat(20, 0),)),
            "gumbel": (
                lambda k: jax.random.categorical(k, jnp.arange(300.0)),
                (jax.random.key(0),),
            ),
            "of a cumulative sum": (
                lambda x: jnp.argmax(jnp.cumsum(x, axis=1), axis=1),
                (x,),
            ),
        }
    )


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_switched_by_name(name):
    x = jnp.arange(900).reshape(2, 450)
    f, call = jax.jit(getattr(jnp, name)), "xla_ffi_accelerate.argmax"
    with xla_ffi_accelerate.enabled(name):
        assert call in f.lower(x.ravel()).as_text()
        for short in (x.ravel()[:8], jnp.ones((200, 8), x.dtype)):
            # XLA's is as fast.
            assert call not in along(-1, name).lower(short).as_text()
        with xla_ffi_accelerate.disabled(), xla_ffi_accelerate.enabled("sort"):
            assert call not in f.lower(x.ravel()).as_text()


def test_threads_share_the_lines():
    x = np.random.default_rng(0).standard_normal((700, 900), np.float32)
    f = jax.jit(lambda x: jnp.argmax(x, 0))
    want = bits(f(x))
    with xla_ffi_accelerate.enabled():
        assert bits(f(x)) == want
