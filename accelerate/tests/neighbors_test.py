"""Exact names beside what XLA folds into them, or makes one with a result."""

import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
import pytest
from accelerate_data import check_equal, program

import xla_ffi_accelerate
from xla_ffi_accelerate import _comparisons, _self_tests


def normal(*shape):
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def convolved(x, k, padding="VALID"):
    return jax.lax.conv_general_dilated(
        *(x, k, (1, 1), padding),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def padded(*ends):
    return lambda x: jnp.pad(x, [(0, 0), *ends, (0, 0)])


def dilated(x):
    pads = [(0, 0, 0), (1, 1, 1), (1, 1, 1), (0, 0, 0)]
    return jax.lax.pad(x, np.float32(0), pads)


FULL = padded((2, 2), (2, 2))
# What is before a depthwise convolution -> whether the kernel convolves. XLA
# folds a pad into it, and then convolves otherwise unless the kernel fits.
BEFORE = {
    "full": (FULL, False),
    "dilated": (dilated, False),
    "in a function": (jax.jit(lambda x: jax.jit(FULL)(x)), False),
    "relabeled": (lambda x: FULL(x.reshape(-1).reshape(x.shape)), False),
    "after a scale": (lambda x: FULL(x * 2), False),
    "turned": (lambda x: FULL(x.swapaxes(1, 2)).swapaxes(1, 2), False),
    "same": (padded((1, 1), (1, 1)), True),
    "a stride's": (padded((0, 1), (0, 1)), True),
    "a scaled pad": (lambda x: FULL(x) * 2, True),
}


@pytest.mark.parametrize("name", BEFORE)
def test_convolution_of_a_pad(name):
    before, is_called = BEFORE[name]
    x, k = normal(2, 12, 14, 32), normal(3, 3, 1, 32)
    is_known = _self_tests.verified(_comparisons.CONVOLVED)[jaxlib.__version__]
    inner = jax.jit(convolved)
    cases = {
        "beside": (jax.jit(lambda x, k: convolved(before(x), k)), (x, k)),
        "outside": (jax.jit(lambda x, k: inner(before(x), k)), (x, k)),
    }
    for f, _ in cases.values():
        with xla_ffi_accelerate.enabled():
            text = f.lower(x, k).as_text()
        is_there = "accelerate.conv_general_dilated" in text
        assert is_there == (is_called and is_known is not None)
    check_equal(cases)


def test_a_function_is_lowered_for_each_kind_of_operand():
    """A pad that does not fit, and what is computed."""
    x, k = normal(2, 12, 14, 32), normal(3, 3, 1, 32)
    inner = jax.jit(convolved)

    def both(x, k):
        return inner(FULL(x), k), inner(FULL(x) * 2, k), inner(FULL(x), k)

    check_equal({"": (both, (x, k))})


# What XLA computes when it compiles, in another order or for nothing.
CONSTANTS = {
    "a sum": lambda x: x + jnp.cumsum(jnp.full(160, 1.1)),
    "what is closed over": lambda x: x + jnp.cumsum(np.full(160, 1.1)),
    "a computed one": lambda x: x + jnp.cumsum(jnp.arange(160.0) * 1.1 + 0.3),
    "in two functions": lambda x: x + jax.jit(jnp.cumsum)(jnp.full(160, 1.1)),
    "a sort": lambda x: x + jnp.sort(jnp.arange(160.0)[::-1]),
    "a product": lambda x: (
        x + (jnp.ones((9, 4, 4)) @ jnp.ones((9, 4, 4))).sum()
    ),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_are_left_to_xla(name):
    f, x = CONSTANTS[name], normal()
    assert "xla_ffi_accelerate." not in program(f, x)
    check_equal({name: (f, (x,))})


def test_a_function_of_a_constant_and_of_an_array():
    """Its calls are lowered apart."""

    def both(x):
        return jnp.cumsum(x), jnp.cumsum(jnp.full(160, 1.1)), jnp.cumsum(x + 1)

    x = normal(160)
    assert program(both, x).count("@xla_ffi_accelerate.cumulative") in (1, 2)
    check_equal({"": (both, (x,))})


def test_what_a_constant_and_an_array_make_is_no_constant():
    text = program(lambda x: jnp.sort(1 - x), normal(4000))
    assert "xla_ffi_accelerate.sort" in text


def test_sums_of_what_is_sorted_along_another_axis():
    x, y = normal(130, 33), normal(33, 130, 4)

    def top(x):
        return jax.lax.top_k(x.swapaxes(0, 1), 99)[0]

    check_equal(
        {
            "all": (jax.jit(lambda x: jnp.sort(x, 0).sum()), (x,)),
            "rows": (jax.jit(lambda x: jnp.sort(x, 0).sum(1)), (x,)),
            "trimmed": (jax.jit(lambda x: jnp.sort(x, 0)[9:-9].mean(0)), (x,)),
            "middle": (jax.jit(lambda y: jnp.sort(y, 1).sum(1)), (y,)),
            "top": (jax.jit(lambda x: top(x).sum()), (normal(999, 130),)),
            "complex": (
                jax.jit(lambda x: jax.lax.sort((x, x + 1j), 0)[1].sum()),
                (x,),
            ),
        }
    )


def walk(key):
    def step(x, key):
        for draw in jax.random.split(key):
            x = x * 0.9 + jax.random.normal(draw)
        return x, x

    return jax.lax.scan(step, 0.0, jax.random.split(key, 50))[1]


def heavy_tailed(key, shape):
    def step(key, _):
        key, now = jax.random.split(key)
        return key, jax.random.cauchy(now, shape)

    return jax.lax.scan(step, key, None, length=40)[1]


KEY = jax.random.key(1)
RELEASE = jax.__version_info__[:2]
# The exception of XLA's that docs/numerics.md has, where it is met.
EXCEPTIONS = {}
if RELEASE == (0, 10):
    EXCEPTIONS["cauchy"] = (lambda k: heavy_tailed(k, ()), (KEY,))
if RELEASE == (0, 12):
    EXCEPTIONS["cauchy"] = (lambda k: heavy_tailed(k, (200,)), (KEY,))
    EXCEPTIONS["walk"] = (walk, (KEY,))


@pytest.mark.parametrize("name", EXCEPTIONS)
def test_what_llvm_rounds_with_a_neighbor(name):
    """If one has ended, it no longer belongs in the page."""
    f, arguments = EXCEPTIONS[name]
    want = np.asarray(jax.jit(lambda *a: f(*a))(*arguments))
    with xla_ffi_accelerate.enabled():
        got = np.asarray(jax.jit(lambda *a: f(*a))(*arguments))
    assert got.tobytes() != want.tobytes()
    np.testing.assert_allclose(got, want, 2e-5, 2e-5)


def test_long_programs_are_lowered_in_time():
    """What makes an operand is looked for in a few operations only."""

    def f(x):
        for _ in range(60):
            x = jax.nn.relu(x @ x + x * x)
            x = jnp.where(x > 3, x, jnp.sort(x, 0) + x)
        return x

    with xla_ffi_accelerate.enabled():
        text = jax.jit(f).lower(normal(16, 16)).as_text()
    assert "@xla_ffi_accelerate.sort(" in text


def test_a_function_for_several_platforms_is_exported_once():
    """Calls have one lowering, so that none is in a branch for each."""

    def nested(x):
        for _ in range(6):
            x = jax.jit(jnp.negative)(jax.jit(lambda x: x + 1)(x))
        return x

    def exported():
        f = jax.jit(lambda x: jax.jit(nested)(x))
        export = jax.export.export(f, platforms=("cpu", "cuda"))
        return export(normal(9)).mlir_module()

    with xla_ffi_accelerate.enabled():
        assert "stablehlo.case" not in exported()
