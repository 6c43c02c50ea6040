"""accelerate: depthwise convolutions and their gradients."""

import dataclasses
import functools
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import hypothesis
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from accelerate_data import self_test
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate
from xla_ffi_accelerate import _comparisons, _jax, _self_tests, registry
from xla_ffi_accelerate.rules import convolution

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


def both(f, *arguments, names=("conv_general_dilated",)):
    """What XLA's own code gives, what the kit's, and the kit's program."""
    with xla_ffi_accelerate.disabled():
        want = jax.jit(lambda *a: f(*a))(*arguments)
    with xla_ffi_accelerate.enabled(*names):
        lowered = jax.jit(lambda *a: f(*a)).lower(*arguments)
        got = lowered.compile()(*arguments)
    return want, got, lowered.as_text()


def check_exact(f, *arguments, calls=1):
    want, got, text = both(f, *arguments)
    assert text.count(f"@{TARGET}(") == calls * (KNOWN is not None)
    # Of two NaNs that meet, either may remain.
    for w, g in zip(jax.tree.leaves(want), jax.tree.leaves(got), strict=True):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        bits = [np.where(np.isnan(v), np.nan, v).tobytes() for v in (w, g)]
        assert bits[0] == bits[1]


def check_close(f, *arguments, calls=1):
    want, got, text = both(f, *arguments, names=("depthwise",))
    assert text.count(f"@{TARGET}") == calls
    magnitudes = jax.jit(f)(*map(np.abs, arguments))
    for w, g, m in zip(
        *map(jax.tree.leaves, (want, got, magnitudes)), strict=True
    ):
        assert (g.shape, g.dtype) == (w.shape, w.dtype)
        bound = 64 * np.finfo(w.dtype).eps * np.asarray(m)
        assert (np.abs(np.asarray(w) - np.asarray(g)) <= bound).all()


GEOMETRIES = {
    "same": {},
    "valid": {"padding": "VALID"},
    "strides": {"strides": (2, 3), "padding": [(0, 1), (2, 0)]},
    "cropped": {"padding": [(-1, 2), (1, -2)]},
    "dilated": {"rhs_dilation": (2, 3), "padding": [(2, 1), (0, 3)]},
    "highest": {"precision": "highest"},
}


@pytest.mark.parametrize("channels", [17, 32, 50])
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
    y = np.moveaxis(x, 3, 1)

    def vmapped(x, k):
        return jax.vmap(conv, (1, 3), 2)(x, k)

    check_exact(functools.partial(conv, layout="NCHW"), y, k)
    check_exact(lambda x, k: jax.vjp(conv, x, k)[1](x)[0], x, k)
    check_exact(vmapped, floats(2, 3, 9, 10, 24), floats(3, 3, 1, 3, 24))
    check_exact(jax.vmap(conv, (0, None)), floats(3, 2, 9, 10, 24), k)
    check_exact(
        lambda x, k: jax.jvp(conv, (x, k), (x[::-1], k[::-1])), x, k, calls=3
    )


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


@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("size", [2, 3])
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


@hypothesis.settings(
    max_examples=40,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(st.data())
def test_special_values(data):
    geometry = GEOMETRIES[data.draw(st.sampled_from(sorted(GEOMETRIES)))]
    random = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    density = data.draw(st.sampled_from([0, 0.01, 0.2]))

    def draw(*shape):
        x = random.standard_normal(shape).astype(np.float32)
        return np.where(
            random.random(shape) < density, random.choice(SPECIALS, shape), x
        )

    check_exact(
        lambda x, k: conv(x, k, **geometry),
        draw(1, 13, 15, 20),
        draw(3, 4, 1, 20),
    )


def test_what_xla_sums_otherwise_is_left_to_it():
    few, k = floats(2, 9, 10, 16), floats(3, 3, 1, 16)
    x = floats(2, 9, 10, 32)
    for f, *arguments in [
        (conv, few, k),
        (conv, x.astype(np.float64), floats(3, 3, 1, 32, dtype=np.float64)),
        (conv, x, floats(1, 1, 1, 32)),
        (conv, x, floats(10, 3, 1, 32)),  # larger than the image
        (conv, x[:0], floats(3, 3, 1, 32)),
        (conv, x[:1, :3, :3, :20], floats(2, 2, 1, 20)),  # little
        (functools.partial(conv, padding=[(9, 9)] * 2), x, k.repeat(2, 3)),
        (
            functools.partial(conv, lhs_dilation=(2, 2), padding=[(0, 0)] * 2),
            x,
            k.repeat(2, 3),
        ),
        (
            functools.partial(conv, preferred_element_type=np.float64),
            x,
            k.repeat(2, 3),
        ),
    ]:
        check_exact(f, *arguments, calls=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_close(dtype):
    x, k = floats(2, 9, 10, 6, dtype=dtype), floats(3, 3, 1, 6, dtype=dtype)
    strided = functools.partial(conv, strides=(2, 2))

    def gradients(x, k):
        y, transposed = jax.vjp(strided, x, k)
        return transposed(y)

    check_close(conv, x, k)
    check_close(gradients, x, k, calls=3)
    check_close(
        functools.partial(conv, lhs_dilation=(2, 3), padding=[(1, 4)] * 2), x, k
    )


@pytest.mark.parametrize("channels", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_channels_are_written_out(channels, dtype):
    x = floats(2, 13, 15, channels, dtype=dtype)
    k = floats(3, 4, 1, channels, dtype=dtype)
    functions = [functools.partial(conv, **g) for g in GEOMETRIES.values()]
    for f in (*functions, lambda x, k: jax.vjp(conv, x, k)[1](x)[0]):
        check_close(f, x, k, calls=0)
        assert "stablehlo.convolution" not in lowered(f, x, k)


def test_few_channels_that_are_left_to_xla():
    x, k = floats(2, 13, 15, 3), floats(9, 8, 1, 3)
    for f, *operands in [
        (conv, x, k),  # 72 products in a sum
        (conv, x, k[:1, :1]),
        (conv, x.astype(np.float16), k[:3, :3].astype(np.float16)),
        (functools.partial(conv, lhs_dilation=(2, 2), padding=[(0, 0)] * 2), x)
        + (k[:3, :3],),
        (lambda x, k: jax.vjp(conv, x, k)[1](x)[1], x, k[:3, :3]),
    ]:
        assert "stablehlo.convolution" in lowered(f, *operands)


def test_signals_are_one_channel():
    x, k = floats(500), floats(9)
    check_close(jnp.convolve, x, k, calls=0)
    assert "stablehlo.convolution" not in lowered(jnp.convolve, x, k)
    f = functools.partial(jax.scipy.signal.convolve2d, mode="same")
    check_close(f, floats(20, 30), floats(5, 5), calls=0)


def lowered(f, *operands):
    with xla_ffi_accelerate.enabled("depthwise"):
        return jax.jit(lambda *a: f(*a)).lower(*operands).as_text()


def test_close_in_one_dimension():
    x, k = floats(2, 40, 20), floats(4, 1, 20)

    def causal(x, k):
        return jax.lax.conv_general_dilated(
            x,
            k,
            (1,),
            [(3, 0)],
            dimension_numbers=("NHC", "HIO", "NHC"),
            feature_group_count=20,
        )

    check_close(causal, x, k)
    check_close(lambda x, k: jax.vjp(causal, x, k)[1](x), x, k, calls=2)


def test_gradients_of_kernels():
    x, k = floats(3, 9, 10, 20), floats(3, 4, 1, 20)
    for geometry in GEOMETRIES.values():

        def gradient(x, k, geometry=geometry):
            y, transposed = jax.vjp(lambda k: conv(x, k, **geometry), k)
            return transposed(y)

        check_close(gradient, x, k, calls=2)


def test_convolutions_that_are_not_depthwise_are_left_to_xla():
    x = floats(2, 9, 10, 32)
    for kernel, groups in [((3, 3, 32, 32), 1), ((3, 3, 1, 64), 32)]:

        def f(x, k, groups=groups):
            return jax.lax.conv_general_dilated(
                x,
                k,
                (1, 1),
                "SAME",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
                feature_group_count=groups,
            )

        check_close(f, x, floats(*kernel), calls=0)


def test_donated():
    x, k = floats(2, 9, 10, 32), floats(3, 3, 1, 32)
    with xla_ffi_accelerate.disabled():
        want = jax.jit(conv)(x, k)
    with xla_ffi_accelerate.enabled("conv_general_dilated"):
        got = jax.jit(lambda x, k: conv(x, k), donate_argnums=0)(
            jnp.array(x), k
        )
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_sharded_batches(axis_type):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    k = floats(3, 3, 1, 32)
    x = jax.device_put(floats(8, 9, 10, 32), NamedSharding(mesh, P("i")))
    mapped = jax.shard_map(
        conv, mesh=mesh, in_specs=(P("i"), P()), out_specs=P("i")
    )
    check_exact(conv, x, k, calls=0)  # XLA splits its own
    check_exact(mapped, x, k)


def test_one_device_of_an_explicit_mesh():
    mesh = jax.make_mesh((1,), ("i",), axis_types=(AxisType.Explicit,))
    x, k = (
        jax.device_put(v, NamedSharding(mesh, P("i")))
        for v in (floats(8, 9, 10, 32), floats(3, 3, 1, 32))
    )
    check_exact(conv, x, k)


def test_not_exported():
    x, k = floats(2, 9, 10, 32), floats(3, 3, 1, 32)
    with xla_ffi_accelerate.enabled():
        exported = jax.export.export(jax.jit(conv))(x, k)
    assert TARGET not in exported.mlir_module()


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


def test_wrong_input_is_an_error_of_jax():
    with (
        xla_ffi_accelerate.enabled(),
        pytest.raises(ValueError, match="feature_group_count"),
    ):
        conv(floats(2, 9, 10, 32), floats(3, 3, 2, 32))
