"""accelerate: the gradient of max and min pooling, bit for bit."""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import specials
from hypothesis import strategies as st

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

TARGET = "xla_ffi_accelerate.select_and_scatter_add"


def pool(x, window, strides, padding="VALID", *, is_min=False):
    operation, start = jax.lax.max, -jnp.inf
    if is_min:
        operation, start = jax.lax.min, jnp.inf
    return jax.lax.reduce_window(
        x, x.dtype.type(start), operation, window, strides, padding
    )


def gradient(*arguments, **keywords):
    def f(x, y):
        return jax.vjp(lambda x: pool(x, *arguments, **keywords), x)[1](y)[0]

    return f


def check(f, x, y, calls=1):
    """XLA's own bits, but of NaNs that meet."""
    compare(compile_both(f, x, y, calls), x, y)


def compile_both(f, x, y, calls=1):
    """XLA's own code, and the kit's."""
    with xla_ffi_accelerate.disabled():
        own = jax.jit(lambda x, y: f(x, y)).lower(x, y).compile()
    with xla_ffi_accelerate.enabled("select_and_scatter_add"):
        lowered = jax.jit(lambda x, y: f(x, y)).lower(x, y)
    assert lowered.as_text().count(f"@{TARGET}(") == calls
    return own, lowered.compile()


@functools.cache
def compiled(name, is_min):
    *arguments, shape, pooled = POOLS[name]
    x, y = (jax.ShapeDtypeStruct(s, np.float32) for s in (shape, pooled))
    return compile_both(gradient(*arguments, is_min=is_min), x, y)


def compare(programs, x, y):
    want, got = (np.asarray(program(x, y)) for program in programs)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    bits = [np.where(np.isnan(v), np.nan, v).tobytes() for v in (want, got)]
    assert bits[0] == bits[1]


def values(random, shape, dtype):
    """Few different ones, so that there are ties, and all special ones."""
    special = specials(np.dtype(dtype))
    few = np.concatenate([special, np.arange(-3, 4).astype(dtype)])
    few = random.permutation(few)[: random.integers(1, few.size + 1)]
    return random.choice(few, shape)


def check_values(f, shape, pooled, dtype, seed=0):
    random = np.random.default_rng(seed)
    check(f, values(random, shape, dtype), values(random, pooled, dtype))
    x = random.standard_normal(shape).astype(dtype)
    check(f, x, random.standard_normal(pooled).astype(dtype))


# window, strides, padding, shape, pooled shape
POOLS = {
    "NHWC": ((1, 2, 2, 1), (1, 2, 2, 1), "VALID", (3, 8, 9, 20), (3, 4, 4, 20)),
    "NCHW": ((1, 1, 2, 2), (1, 1, 2, 2), "VALID", (3, 5, 8, 9), (3, 5, 4, 4)),
    "overlap": (
        (1, 3, 3, 1),
        (1, 2, 1, 1),
        ((0, 0), (1, 1), (2, 0), (0, 0)),
        (2, 9, 8, 5),
        (2, 5, 8, 5),
    ),
    "gaps": ((1, 2, 1, 1), (1, 3, 2, 1), "VALID", (3, 8, 9, 9), (3, 3, 5, 9)),
    "rows": ((1, 4, 1), (1, 3, 1), "SAME", (3, 40, 9), (3, 14, 9)),
    "line": ((5,), (4,), ((4, 4),), (800,), (201,)),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", POOLS)
def test_same_bits(name, dtype):
    *arguments, shape, pooled = POOLS[name]
    for is_min in (False, True):
        f = gradient(*arguments, is_min=is_min)
        check_values(f, shape, pooled, dtype)


@hypothesis.settings(
    max_examples=40,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    st.sampled_from(sorted(POOLS)), st.booleans(), st.integers(0, 2**32 - 1)
)
def test_special_values(name, is_min, seed):
    *_, shape, pooled = POOLS[name]
    random = np.random.default_rng(seed)
    compare(
        compiled(name, is_min),
        values(random, shape, np.float32),
        values(random, pooled, np.float32),
    )


def test_windows_of_infinities():
    x = np.full((4, 8, 8, 6), -np.inf, np.float32)
    y = np.ones((4, 5, 5, 6), np.float32)
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    check(gradient((1, 2, 2, 1), (1, 2, 2, 1), padding), x, y)


def test_transformations():
    *arguments, shape, pooled = POOLS["NHWC"]
    f = gradient(*arguments)
    random = np.random.default_rng(0)
    x, y = (random.standard_normal((2, *s)) for s in (shape, pooled))
    check(jax.vmap(f), x, y)
    check(jax.vmap(f, (0, None)), x, y[0])
    check(jax.vmap(f, (1, 1), 2), x.swapaxes(0, 1), y.swapaxes(0, 1))
    check(lambda x, y: jax.grad(lambda y: (f(x, y) ** 2).sum())(y), x[0], y[0])


def test_what_is_left_to_xla():
    images = ((1, 2, 2, 1), (1, 2, 2, 1))
    for f, shape, pooled, dtype in [
        (gradient(*images), (1, 4, 4, 2), (1, 2, 2, 2), np.float32),  # little
        (gradient(*images), (0, 8, 8, 9), (0, 4, 4, 9), np.float32),
        (gradient(*images), (4, 8, 8, 9), (4, 4, 4, 9), np.float16),
        (
            gradient((2, 1, 2), (2, 1, 2)),
            (8, 20, 8),
            (4, 20, 4),
            np.float32,
        ),
        (
            gradient((2, 2, 2), (2, 2, 2)),
            (8, 20, 8),
            (4, 10, 4),
            np.float32,
        ),
    ]:
        random = np.random.default_rng(0)
        x, y = (
            random.standard_normal(s).astype(dtype) for s in (shape, pooled)
        )
        check(f, x, y, calls=0)


def test_donated():
    *arguments, shape, pooled = POOLS["NHWC"]
    f = gradient(*arguments)
    x, y = (
        np.arange(np.prod(s), dtype=np.float32).reshape(s)
        for s in (shape, pooled)
    )
    with xla_ffi_accelerate.disabled():
        want = jax.jit(f)(x, y)
    with xla_ffi_accelerate.enabled("select_and_scatter_add"):
        got = jax.jit(lambda x, y: f(x, y), donate_argnums=0)(jnp.array(x), y)
    assert got.tobytes() == want.tobytes()
