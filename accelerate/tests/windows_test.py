"""accelerate: depthwise convolutions, and gradients of max and min pooling.

The fuzzer draws shapes, layouts, dilations and gradients.
"""

import dataclasses
import functools

import hypothesis
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from accelerate_data import (
    bits,
    both,
    program,
    self_test,
    specials,
    without_nans,
)
from hypothesis import strategies as st

import xla_ffi_accelerate
from xla_ffi_accelerate import _comparisons, _jax, _self_tests, registry
from xla_ffi_accelerate.rules.handlers import convolution

jax.config.update("jax_enable_x64", True)

TARGET = "xla_ffi_accelerate.conv_general_dilated"
(RULE,) = registry.RULES["conv_general_dilated"]
KNOWN = self_test(RULE)  # None: XLA of jax 0.8.1 sums in another order


def conv(x, k, strides=(1, 1), padding="SAME", layout="NHWC", **keywords):
    """Each channel of x with its own channel of k, (height, width, 1, c)."""
    channels = x.shape[layout.index("C")]
    kernel = {"NHWC": "HWIO", "NCHW": "OIHW"}[layout]
    return jax.lax.conv_general_dilated(
        x,
        jnp.transpose(k, ["HWIO".index(axis) for axis in kernel]),
        strides,
        padding,
        dimension_numbers=(layout, kernel, layout),
        feature_group_count=channels,
        **keywords,
    )


def floats(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check_exact(f, *arguments, calls=1):
    want, got, text = both(f, *arguments, names=["conv_general_dilated"])
    assert text.count(f"@{TARGET}(") == calls * (KNOWN is not None)
    # Of two NaNs that meet, either may remain.
    assert bits(without_nans(got)) == bits(without_nans(want))


GEOMETRIES = {
    "same": {},
    "valid": {"padding": "VALID"},
    "strides": {"strides": (2, 3), "padding": [(0, 1), (2, 0)]},
    "cropped": {"padding": [(-1, 2), (1, -2)]},
    "dilated": {"rhs_dilation": (2, 3), "padding": [(2, 1), (0, 3)]},
    "highest": {"precision": "highest"},
}


@pytest.mark.parametrize("channels", [17, 50])
def test_same_bits(channels):
    x, k = floats(2, 13, 15, channels), floats(3, 4, 1, channels)
    check_exact(
        lambda x, k: [conv(x, k, **g) for g in GEOMETRIES.values()],
        x,
        k,
        calls=len(GEOMETRIES),
    )


def test_layouts_and_transformations():
    x, k = floats(2, 9, 10, 24), floats(3, 3, 1, 24)

    def every(x, y, k, several, each, batch):
        return (
            conv(y, k, layout="NCHW"),
            jax.vjp(conv, x, k)[1](x)[0],
            jax.vmap(conv, (1, 3), 2)(several, each),
            jax.vmap(conv, (0, None))(batch, k * 2),
            jax.jvp(conv, (x, k), (x[::-1], k[::-1])),
        )

    batches = (2, 3, 9, 10, 24), (3, 3, 1, 3, 24), (3, 2, 9, 10, 24)
    y = np.moveaxis(x, 3, 1)
    check_exact(every, x, y, k, *(floats(*s) for s in batches), calls=7)


@pytest.mark.parametrize(
    "changed",
    [
        {"strides": (2**31, 1)},
        {"padding": ((-(2**30) - 4, 2**30 + 4), (1, 1))},
        {"lhs_dilation": (2, 1), "padding": [(1, 1), (1, 1)]},
    ],
)
def test_windows_that_the_kernels_do_not_take(changed):
    x, k = floats(2, 9, 10, 24), floats(3, 3, 1, 24)

    def f(x, k):
        y, vjp = jax.vjp(lambda x, k: conv(x, k, **changed), x, k)
        return y, vjp(y)

    want, got, _ = both(f, x, k, exact=False)
    assert bits(got) == bits(want)


def test_an_empty_base_is_jax_own():
    """There the kernels multiply zeros by weights, which may be infinite."""
    y, k = floats(2, 0, 10, 24), floats(3, 3, 1, 24)
    padding = ((9, 2), (1, 1))
    f = functools.partial(conv, padding=padding)
    assert TARGET not in program(f, y, k)


def nested(size, is_last):
    x, k = floats(3, 2, 9, 10, 24), floats(size, size, 1, 24)
    x = x if is_last else np.moveaxis(x, 4, 2)
    layout = "NHWC" if is_last else "NCHW"

    @jax.jit  # lowered once for each place
    def convolved(x):
        return conv(x, k, layout=layout)

    def every(x):
        return (
            convolved(x[0]),
            jax.lax.map(convolved, x),
            jax.lax.cond(x.ravel()[0] > 9, jnp.negative, convolved, x[1]),
            convolved(x[0] + 1),
        )

    return every, x


@pytest.mark.parametrize(("size", "is_last"), [(2, True), (3, False)])
def test_in_loops_and_branches(size, is_last):
    """XLA puts channels last itself, but not in there."""
    every, x = nested(size, is_last)
    # Three functions: of the latter two, each if the channels are last.
    check_exact(every, x, calls=3 if is_last else 1)


def test_a_changed_jax_lowers_once_for_all_uses(monkeypatch):
    monkeypatch.setattr(_jax, "_CACHES", ("gone",))
    every, x = nested(3, is_last=False)
    check_exact(every, x, calls=0)


SPECIALS = np.array(
    [0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1e-25, -3e-25, 3e38],
    np.float32,
)


@functools.cache
def compiled(geometry):
    """JAX's own code and the kernel."""
    f = functools.partial(conv, **GEOMETRIES[geometry])
    shapes = (1, 13, 15, 20), (3, 4, 1, 20)
    operands = [jax.ShapeDtypeStruct(s, np.float32) for s in shapes]
    settings = (
        xla_ffi_accelerate.disabled(),
        xla_ffi_accelerate.enabled("conv_general_dilated"),
    )
    programs = []
    for setting in settings:
        with setting:
            lowered = jax.jit(lambda x, k: f(x, k)).lower(*operands)
        programs.append(lowered.compile())
    return programs


@hypothesis.settings(
    max_examples=40,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    st.sampled_from(sorted(GEOMETRIES)),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 0.01, 0.2]),
)
def test_special_values(geometry, seed, density):
    random = np.random.default_rng(seed)

    def draw(*shape):
        x = random.standard_normal(shape).astype(np.float32)
        return np.where(
            random.random(shape) < density, random.choice(SPECIALS, shape), x
        )

    x, k = draw(1, 13, 15, 20), draw(3, 4, 1, 20)
    want, got = (without_nans(f(x, k)) for f in compiled(geometry))
    assert bits(got) == bits(want)


def test_what_xla_sums_otherwise_is_left_to_it():
    few, k = floats(2, 9, 10, 16), floats(3, 3, 1, 16)
    x, both = floats(2, 9, 10, 32), floats(3, 3, 1, 32)
    own = functools.partial
    for f, *arguments in [
        (conv, few, k),
        (conv, x.astype(np.float64), both.astype(np.float64)),
        (conv, x, floats(1, 1, 1, 32)),
        (conv, x, floats(10, 3, 1, 32)),  # larger than the image
        (conv, x[:0], both),
        (conv, x[:1, :3, :3, :20], floats(2, 2, 1, 20)),  # little
        (own(conv, padding=[(9, 9)] * 2), x, both),
        (own(conv, lhs_dilation=(2, 2), padding=[(0, 0)] * 2), x, both),
        (own(conv, preferred_element_type=np.float64), x, both),
    ]:
        text = program(f, *arguments, names=["conv_general_dilated"])
        assert TARGET not in text


def test_convolutions_that_are_not_depthwise_are_left_to_xla():
    x = floats(2, 9, 10, 32)
    for kernel, groups in [
        ((3, 3, 32, 32), 1),
        ((3, 3, 32, 1), 1),
        ((3, 3, 2, 32), 16),
        ((3, 3, 1, 17 * 32), 32),
    ]:

        def f(x, k, groups=groups):
            return jax.lax.conv_general_dilated(
                x,
                k,
                (1, 1),
                "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            )

        text = program(f, x, floats(*kernel))
        assert TARGET not in text


def test_the_table_says_what_the_self_test_finds():
    table = _self_tests.verified(RULE.test)
    assert table.get(jaxlib.__version__, KNOWN) == KNOWN


def test_the_self_test_fails_where_xla_sums_otherwise(monkeypatch):
    monkeypatch.setattr(convolution, "_MIN_CHANNELS", 1)
    run = _comparisons._comparing(
        _comparisons.convolve,
        lambda: (floats(2, 6, 9, 16), floats(3, 3, 1, 16)),
        trials=({"is_fused": 1}, {"is_fused": 0}),
    )
    test = dataclasses.replace(RULE.test, run=run)
    assert self_test(dataclasses.replace(RULE, test=test)) is None


# Gradients of pooling: every bit XLA's own, but of NaNs that meet.

POOLING = ["select_and_scatter_add"]
POOLED = f"@xla_ffi_accelerate.{POOLING[0]}("


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


def check_pooled(f, *arguments, calls=1):
    """XLA's own bits, but of NaNs that meet."""
    want, got, text = both(f, *arguments, names=POOLING)
    assert text.count(POOLED) == calls
    assert bits(without_nans(got)) == bits(without_nans(want))


def values(random, shape, dtype):
    """Few different ones, so that there are ties, and all special ones."""
    special = specials(np.dtype(dtype))
    few = np.concatenate([special, np.arange(-3, 4).astype(dtype)])
    few = random.permutation(few)[: random.integers(1, few.size + 1)]
    return random.choice(few, shape)


def test_a_stride_that_pooling_does_not_take():
    x = np.random.default_rng(0).normal(size=(2, 9, 64, 20))
    f = gradient((1, 3, 3, 1), (1, 2**31, 1, 1), "SAME")
    check_pooled(f, x, np.ones((2, 1, 64, 20)), calls=0)


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
def test_pooling_has_the_same_bits(name):
    """Of the largest and of the least; the fuzzer has channels last alone."""
    *arguments, shape, pooled = POOLS[name]
    dtype = np.float64 if name in ("NCHW", "line") else np.float32
    random = np.random.default_rng(0)
    x, y = (np.stack([values(random, s, dtype)] * 5) for s in (shape, pooled))
    x[3:], y[3:] = (random.standard_normal(v[3:].shape) for v in (x, y))

    def every(x, y):
        pair = (gradient(*arguments, is_min=m) for m in (False, True))
        return [[f(*each) for each in zip(x, y, strict=True)] for f in pair]

    check_pooled(every, x, y, calls=10)


def test_windows_of_infinities():
    x = np.full((4, 8, 8, 6), -np.inf, np.float32)
    y = np.ones((4, 5, 5, 6), np.float32)
    padding = ((0, 0), (1, 1), (1, 1), (0, 0))
    check_pooled(gradient((1, 2, 2, 1), (1, 2, 2, 1), padding), x, y)


def test_pooling_that_is_left_to_xla():
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
        assert POOLED not in program(gradient(*arguments), x, y, names=POOLING)
