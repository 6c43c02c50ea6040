"""accelerate("gamma"): JAX's own bits with AVX2, some eps with AVX-512.

Of constants, some eps everywhere; see docs/numerics.md.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, quick_compilation

import xla_ffi_accelerate
from xla_ffi_accelerate import _processor

jax.config.update("jax_enable_x64", True)

KEY = jax.random.key(7)
KEYS = jax.random.split(KEY, 6)
F32, F64 = np.float32, np.float64
# The few small ones reject most, and what is no parameter gives NaNs.
ALPHA = np.concatenate(
    [np.logspace(-3, 3, 600), [0, 1, np.inf, np.nan, 0.999, 1e-30, -3, 1e30]]
)


@pytest.fixture
def compiled_quickly():
    """For what is about keys, shards and files: test_arrays has the bits."""
    with quick_compilation():
        yield


def is_replaced(function, *arguments):
    """Whether the rule is used: it counts rejected elements by their flags."""
    with xla_ffi_accelerate.enabled("random", "gamma"):
        text = jax.jit(lambda *x: function(*x)).lower(*arguments).as_text()
    return "stablehlo.popcnt" in text


def check_equal(cases):
    """Compares each (function, arguments) with JAX's own code, as promised."""
    arrays = {name: arguments for name, (_, arguments) in cases.items()}

    @jax.jit
    def every(arrays):
        return {name: f(*arrays[name]) for name, (f, _) in cases.items()}

    with xla_ffi_accelerate.disabled():
        want = every(arrays)
    with xla_ffi_accelerate.enabled("random", "gamma"):
        got = every(arrays)
    for name in cases:
        if _processor.has_avx512():  # where only these bounds are promised
            check_close(got[name], want[name], name)
        else:
            assert bits(got[name]) == bits(want[name]), name


def check_close(got, want, name):
    """Some eps, but for one sample in a hundred."""
    for x, y in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        eps = 64 * jnp.finfo(y.dtype).eps
        is_other = ~np.isclose(x, y, eps, eps, equal_nan=True)
        assert np.mean(is_other) <= 0.01, name


@pytest.mark.parametrize(
    ("is_partitionable", "dtype"), [(True, F32), (False, F64)]
)
def test_arrays(is_partitionable, dtype):
    alpha = ALPHA.astype(dtype)

    def gamma(key, a):
        return jax.random.gamma(key, a, dtype=dtype)

    def log(key, a):
        return jax.random.loggamma(key, a, dtype=dtype)

    many = np.array(jax.random.uniform(KEY, (3, 1001), dtype, 0.01, 4))
    one, other = (gamma, log) if is_partitionable else (log, gamma)
    with jax.threefry_partitionable(is_partitionable):
        assert is_replaced(gamma, KEY, alpha)
        cases = {"one": (one, (KEY, alpha)), "other": (other, (KEY, many))}
        check_equal(cases)


@pytest.mark.usefixtures("compiled_quickly")
def test_constants():
    """These XLA computes while it compiles, in another order."""
    r, n = jax.random, (500,)

    @jax.jit
    def all_of_them(key):
        return {
            "beta": r.beta(key, 0.5, 2.5, n, F32),
            "dirichlet": r.dirichlet(key, jnp.full(5, 0.3, F32), (99,), F32),
            "gamma": r.gamma(key, 0.7, n, F64),
            "t": r.t(key, 3.0, n, F32),
        }

    with xla_ffi_accelerate.disabled():
        want = all_of_them(KEY)
    with xla_ffi_accelerate.enabled("random", "gamma"):
        got = all_of_them(KEY)
    for name, samples in want.items():
        eps = 64 * jnp.finfo(samples.dtype).eps
        np.testing.assert_allclose(got[name], samples, eps, err_msg=name)


@pytest.mark.usefixtures("compiled_quickly")
def test_sizes_keys_and_derivatives():
    def draw(key, alpha):
        return jax.random.gamma(key, alpha, dtype=F32)

    def loss(alpha):
        return jnp.sum(draw(KEY, alpha) ** 2)

    nested = jax.vmap(jax.vmap(draw), (None, 1))
    alpha = np.linspace(0.1, 3, 6 * 7 * 9).reshape(6, 7, 9).astype(F32)
    sizes = {n: ALPHA[:n].astype(F32) + F32(0.5) for n in (2, 33)}
    check_equal(
        {
            "of one element": (jax.vmap(draw), (KEYS, alpha[:, 0, 0])),
            "nested": (nested, (KEYS, alpha)),
            "grad": (jax.grad(loss), (alpha[0, 0],)),
            **{f"{n}": (draw, (KEY, a)) for n, a in sizes.items()},
        }
    )
    with xla_ffi_accelerate.enabled("random", "gamma"):
        got = jax.random.gamma(KEY, F32(2), (50,))
    check_close(got, jax.random.gamma(KEY, F32(2), (50,)), "eager")


@pytest.mark.parametrize("alpha", [F32(0.3), np.tile(F32([2.5, 0.3]), 20)])
def test_loops(alpha):
    """Where XLA may round products and sums of neighbors together."""

    def walk(key, alpha):
        def step(state, _):
            key, sum_ = state
            key, sub = jax.random.split(key)
            sample = jax.random.gamma(sub, alpha, dtype=F32)
            return (key, sum_ * F32(0.9) + sample), sample

        start = key, jnp.zeros_like(alpha)
        (_, sum_), samples = jax.lax.scan(step, start, None, length=300)
        return sum_, samples

    assert is_replaced(walk, KEY, alpha)
    check_equal({"walk": (walk, (KEY, alpha))})


def test_what_stays_jaxs():
    def draw(key, alpha):
        return jax.random.gamma(key, alpha, dtype=alpha.dtype)

    alpha = np.ones(50, F32)
    assert is_replaced(draw, KEY, alpha)
    assert not is_replaced(draw, jax.random.key(3, impl="rbg"), alpha)
    assert not is_replaced(draw, KEY, alpha.astype(np.float16))
    assert not is_replaced(draw, KEY, np.ones(0, F32))


@pytest.mark.usefixtures("compiled_quickly")
def test_exported():
    draw = jax.jit(lambda key, alpha: jax.random.gamma(key, alpha))
    want = bits(draw(KEY, ALPHA))
    with xla_ffi_accelerate.enabled("random", "gamma"):
        module = jax.export.export(draw)(KEY, ALPHA)
    assert "@xla_ffi_accelerate." not in module.mlir_module()
    assert "stablehlo.popcnt" in module.mlir_module()
    assert bits(module.call(KEY, ALPHA)) == want
