"""accelerate("random"): every bit that of JAX without the kit."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, check_equal
from jax.extend.random import threefry_2x32

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

TARGET = "xla_ffi_accelerate."
KEY = jax.random.key(7)
KEYS = jax.random.split(KEY, 70)


@pytest.fixture(params=[True, False], ids=["partitionable", "not"])
def partitionable(request):
    with jax.threefry_partitionable(request.param):
        yield request.param


def drawn(width, shape):
    return jax.jit(lambda key: jax.random.bits(key, shape, f"uint{width}"))


def test_long_draws_and_keys(partitionable):
    """The fuzzer draws short ones; above this size, threads share them."""
    data = jax.random.key_data(KEYS)
    long = (65_537,), (3 * 65_537,)  # odd in words and in bytes
    widths = (8, 16, 32, 64)
    cases = {f"{w}, {s}": (drawn(w, s), (KEY,)) for w in widths for s in long}
    for n in (1000, (3, 5)):
        cases[f"split, {n}"] = lambda k, n=n: key_data(split(k, n)), (KEY,)
    fold = jax.vmap(lambda i: key_data(jax.random.fold_in(KEY, i)))
    nested = jax.vmap(jax.vmap(drawn(64, (47,))))
    hashed = lambda k, x: threefry_2x32((k[0], k[1]), x)  # noqa: E731
    counters = np.arange(777, dtype=np.uint32)
    check_equal(
        cases
        | {
            "fold_in": (fold, (np.arange(300),)),
            "raw keys": (jax.vmap(jax.random.split), (data,)),
            "hash": (hashed, (data[0], counters)),
            "many": (jax.vmap(drawn(8, (600,))), (KEYS,)),
            "nested": (nested, (KEYS.reshape(7, 10),)),
        }
    )


split, key_data = jax.random.split, jax.random.key_data


def everything(key):
    """What the fuzzer does not draw, and programs that draw some."""
    r, n = jax.random, (300,)
    return {
        "gamma": r.gamma(key, 2.5, n, jnp.float32),
        "poisson": r.poisson(key, 30.0, n),
        "choice": r.choice(key, 500, (20,), p=jnp.arange(500) / 124_750),
        "orthogonal": r.orthogonal(key, 4),
        "scan": key_data(jax.lax.scan(walk, key, None, 9)[0]),
        "while": jax.vmap(rejected)(split(key, 9)),
        "grad": jax.grad(loss)(jnp.ones((40, 30)), key),
    }


def walk(key, _):
    key, sub = split(key)
    return key, jax.random.normal(sub, (20,)).sum()


def rejected(key):
    def draw(state):
        key, sub = split(state[0])
        return key, jax.random.normal(sub)

    return jax.lax.while_loop(lambda s: s[1] < 2.5, draw, (key, 0.0))[1]


def loss(x, key):
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return (jnp.where(keep, x, 0) ** 2).sum()


def test_distributions_and_programs(partitionable):
    check_equal({"": (everything, (KEY,))})


def test_programs_call_the_handlers():
    with xla_ffi_accelerate.enabled("random"):
        text = drawn(32, (100,)).lower(KEY).as_text()
        assert "@xla_ffi_accelerate.random_bits(" in text
        text = jax.jit(lambda k: key_data(split(k, 9))).lower(KEY).as_text()
        assert "@xla_ffi_accelerate.threefry2x32(" in text


@pytest.mark.parametrize("size", [3, 16, 100, 200])
def test_in_loops(size):
    """Few words are hashed in place, but not outside of the loop."""
    draw = drawn(32, (size,))  # lowered once for each

    def both(key):
        return draw(key), jax.lax.scan(step, key, None, 8)[1]

    def step(key, _):
        return key, (draw(key), draw(key) + 1)

    check_equal({"both": (both, (KEY,))})
    with xla_ffi_accelerate.enabled("random"):
        text = jax.jit(both).lower(KEY).as_text()
    # Of 100 words, XLA's own hash is faster since jax 0.12.
    is_called = size == 200 or size == 100 and jax.__version_info__ < (0, 12)
    assert text.count("@xla_ffi_accelerate.random_bits(") == 1 + is_called
    assert ("stablehlo.shift_left" in text) != is_called
    is_own = size == 100 and not is_called
    assert ("while" in text.replace("stablehlo.while", "", 1)) == is_own


@pytest.mark.parametrize("steps", [7, 8])
def test_a_loop_of_few_steps_keeps_jax_own_hash(steps):
    def walk(key):
        return jax.lax.scan(lambda k, _: (split(k)[0], None), key, None, steps)

    texts = set()
    for setting in (xla_ffi_accelerate.disabled, xla_ffi_accelerate.enabled):
        with setting():
            text = jax.jit(lambda k: walk(k)).lower(KEY).as_text()
            # Some releases count the functions that a process lowers.
            texts.add(re.sub(r"@closed_call_\d+", "@closed_call", text))
    assert len(texts) == (1 if steps < 8 else 2)


def test_other_generators_are_left_to_jax():
    key = jax.random.key(3, impl="rbg")
    with xla_ffi_accelerate.enabled("random"):
        text = drawn(32, (100,)).lower(key).as_text()
    assert "random_bits" not in text.replace("jit_", "")
    assert "stablehlo.rng_bit_generator" in text


def test_too_many_words_are_left_to_jax():
    with (
        jax.threefry_partitionable(False),
        xla_ffi_accelerate.enabled("random"),
    ):
        for size, expected in ((2**32 - 3, True), (2**32, False)):
            text = drawn(32, (size,)).lower(KEY).as_text()
            assert ("xla_ffi_accelerate.random_bits" in text) == expected, size


@pytest.mark.parametrize("size", [5, 1000])
def test_exported(size):
    want = bits(drawn(32, (size,))(KEY))
    with xla_ffi_accelerate.enabled("random"):
        exported = jax.export.export(drawn(32, (size,)))(KEY)
    assert "@xla_ffi_accelerate." not in exported.mlir_module()
    assert "stablehlo.while" not in exported.mlir_module()
    assert bits(exported.call(KEY)) == want


def test_exported_with_a_symbolic_size():
    def f(x):
        return x + jax.random.uniform(KEY, x.shape)

    (n,) = jax.export.symbolic_shape("n")
    x = np.zeros(90)
    want = bits(jax.jit(f)(x))
    with xla_ffi_accelerate.enabled("random"):
        shape = jax.ShapeDtypeStruct((n,), x.dtype)
        exported = jax.export.export(jax.jit(f))(shape)
    assert bits(exported.call(x)) == want


def test_64_bits_of_a_program_that_is_lowered_without_x64():
    def draw(key):
        return jax.random.bits(key, (300,), np.uint64)

    key = jax.random.key(3)
    want = draw(key)
    with xla_ffi_accelerate.enabled("random"):
        traced = jax.jit(draw).trace(key)
        with jax.enable_x64(False):
            lowered = traced.lower()
    assert "@xla_ffi_accelerate." in lowered.as_text()
    assert bits(lowered.compile()(key)) == bits(want)
