"""accelerate: the gradient of max and min pooling, bit for bit."""

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, both, program, specials, without_nans
from hypothesis import strategies as st

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

NAMES = ["select_and_scatter_add"]
CALL = f"@xla_ffi_accelerate.{NAMES[0]}("


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


def check(f, *arguments, calls=1):
    """XLA's own bits, but of NaNs that meet."""
    want, got, text = both(f, *arguments, names=NAMES)
    assert text.count(CALL) == calls
    assert bits(without_nans(got)) == bits(without_nans(want))


def values(random, shape, dtype):
    """Few different ones, so that there are ties, and all special ones."""
    special = specials(np.dtype(dtype))
    few = np.concatenate([special, np.arange(-3, 4).astype(dtype)])
    few = random.permutation(few)[: random.integers(1, few.size + 1)]
    return random.choice(few, shape)


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


@functools.cache
def compiled(name, dtype):
    """XLA's own code and the kernel, of the largest and of the least."""
    *arguments, shape, pooled = POOLS[name]
    x, y = (jax.ShapeDtypeStruct(s, dtype) for s in (shape, pooled))
    pair = [gradient(*arguments, is_min=is_min) for is_min in (False, True)]

    def every(x, y):
        return [f(x, y) for f in pair]

    with xla_ffi_accelerate.disabled():
        own = jax.jit(every).lower(x, y).compile()
    with xla_ffi_accelerate.enabled(*NAMES):
        lowered = jax.jit(every).lower(x, y)
    assert lowered.as_text().count(CALL) == 2
    return own, lowered.compile()


@pytest.mark.parametrize("name", POOLS)
@hypothesis.settings(
    max_examples=15,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(seed=st.integers(0, 2**32 - 1), is_usual=st.booleans())
def test_same_bits(name, seed, is_usual):
    *_, shape, pooled = POOLS[name]
    dtype = np.float64 if name in ("NCHW", "line") else np.float32
    random = np.random.default_rng(seed)
    x, y = (values(random, s, dtype) for s in (shape, pooled))
    if is_usual:
        x, y = (random.standard_normal(v.shape).astype(dtype) for v in (x, y))
    own, kit = (without_nans(f(x, y)) for f in compiled(name, dtype))
    assert bits(kit) == bits(own)


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

    def every(x, y):
        turned = x.swapaxes(0, 1), y.swapaxes(0, 1)
        slope = jax.grad(lambda y: (f(x[0], y) ** 2).sum())
        return (
            jax.vmap(f)(x, y),
            jax.vmap(f, (0, None))(x, y[0]),
            jax.vmap(f, (1, 1), 2)(*turned),
            slope(y[0]),
        )

    check(every, x, y, calls=4)


def test_what_is_left_to_xla():
    images = ((1, 2, 2, 1), (1, 2, 2, 1))
    rows, cubes = ((2, 1, 2), (2, 1, 2)), ((2, 2, 2), (2, 2, 2))
    for arguments, shape, pooled, dtype in [
        (images, (1, 4, 4, 2), (1, 2, 2, 2), np.float32),  # little
        (images, (0, 8, 8, 9), (0, 4, 4, 9), np.float32),
        (images, (4, 8, 8, 9), (4, 4, 4, 9), np.float16),
        (rows, (8, 20, 8), (4, 20, 4), np.float32),
        (cubes, (8, 20, 8), (4, 10, 4), np.float32),
    ]:
        x, y = (np.ones(s, dtype) for s in (shape, pooled))
        assert CALL not in program(gradient(*arguments), x, y, names=NAMES)
