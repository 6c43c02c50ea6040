"""accelerate: the gradient of max and min pooling, bit for bit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, both, program, specials, without_nans

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


def test_a_stride_that_the_kernel_does_not_take():
    x = np.random.default_rng(0).normal(size=(2, 9, 64, 20))
    f = gradient((1, 3, 3, 1), (1, 2**31, 1, 1), "SAME")
    check(f, x, np.ones((2, 1, 64, 20)), calls=0)


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


@pytest.mark.parametrize("name", POOLS)
def test_same_bits(name):
    """Of the largest and of the least; the fuzzer has channels last alone."""
    *arguments, shape, pooled = POOLS[name]
    dtype = np.float64 if name in ("NCHW", "line") else np.float32
    random = np.random.default_rng(0)
    x, y = (np.stack([values(random, s, dtype)] * 5) for s in (shape, pooled))
    x[3:], y[3:] = (random.standard_normal(v[3:].shape) for v in (x, y))

    def every(x, y):
        pair = (gradient(*arguments, is_min=m) for m in (False, True))
        return [[f(*each) for each in zip(x, y, strict=True)] for f in pair]

    check(every, x, y, calls=10)


def test_windows_of_infinities():
    x = np.full((4, 8, 8, 6), -np.inf, np.float32)
    y = np.ones((4, 5, 5, 6), np.float32)
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    check(gradient((1, 2, 2, 1), (1, 2, 2, 1), padding), x, y)


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
