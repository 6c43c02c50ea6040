"""accelerate("math"): within the stated bound, and as IEEE 754 has it."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate

SIZE = 1 << 17
BOUND = 0.501  # ulp
INF, NAN = np.inf, np.nan
# On which the rules of sine, cosine and tangent cover nothing.
HAS_SINES = jax.__version_info__ < (0, 11)

ONE = {
    "acos": (jnp.arccos, np.arccos),
    "asin": (jnp.arcsin, np.arcsin),
    "cbrt": (jnp.cbrt, np.cbrt),
    "cosine": (jnp.cos, np.cos),
    "sine": (jnp.sin, np.sin),
    "tan": (jnp.tan, np.tan),
}
TWO = {"atan2": (jnp.arctan2, np.arctan2), "power": (jax.lax.pow, np.power)}
SINES = ("cosine", "sine", "tan") if HAS_SINES else ()
OURS = sorted({*ONE, *TWO} - ({"cosine", "sine", "tan"} - set(SINES)))


def kit(f, *x):
    """The result under `accelerate("math")`, and the program."""
    with xla_ffi_accelerate.enabled("math"):
        lowered = jax.jit(lambda *x: f(*x)).lower(*x)
        return np.asarray(lowered.compile()(*x)), lowered.as_text()


def is_ours(text):
    """Whether a program of f32 computes in double precision."""
    return "xf64>" in text


def worst(name, *x):
    """The largest error in ulp, where result and operands are normal."""
    function, exact = {**ONE, **TWO}[name]
    got, text = kit(function, *x)
    assert is_ours(text)
    with np.errstate(all="ignore"):
        want = exact(*(a.astype(np.float64) for a in x))
    limits = jnp.finfo(got.dtype)
    is_normal = np.abs(want) < limits.max
    is_normal &= np.abs(want) >= limits.tiny
    for a in x:
        is_normal &= (np.abs(a) >= limits.tiny) | (a == 0)
    want, got = want[is_normal], got[is_normal].astype(np.float64)
    ulp = np.exp2(np.floor(np.log2(np.abs(want))) - limits.nmant)
    assert want.size
    return (np.abs(got - want) / ulp).max()


def random_floats(seed, size=SIZE):
    """Of any sign, exponent and mantissa, but finite."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 255 << 23, size, np.uint32)
    bits |= random.integers(0, 2, size, np.uint32) << 31
    return bits.view(np.float32)


@pytest.mark.parametrize("name", SINES)
def test_sines(name):
    random = np.random.default_rng(0)
    near = (np.arange(1, SIZE + 1) * (np.pi / 2)).astype(np.float32)
    for x in (
        random_floats(1),
        (100 * random.standard_normal(SIZE)).astype(np.float32),
        near,
        near[::-1] * np.float32(1e5),
        # On both sides of where another reduction begins.
        np.float32(2**20) + np.arange(-SIZE // 2, SIZE // 2, dtype=np.float32),
    ):
        assert worst(name, x) <= BOUND


@pytest.mark.parametrize("name", SINES)
def test_both_reductions_agree(name):
    """Where an array has a huge element, the others stay the same."""
    x = np.linspace(-1000, 1000, SIZE, dtype=np.float32)
    want, _ = kit(ONE[name][0], x)
    x[7] = 1e18  # whose square is finite
    got, _ = kit(ONE[name][0], x)
    np.testing.assert_array_equal(np.delete(got, 7), np.delete(want, 7))
    np.testing.assert_allclose(got[7], ONE[name][1](float(x[7])), rtol=1e-6)


@pytest.mark.parametrize("name", ["acos", "asin"])
def test_inverse_sines(name):
    random = np.random.default_rng(0)
    ones = 1 - random.integers(0, 2**20, SIZE) * 2.0**-24
    for x in (random.uniform(-1, 1, SIZE), ones, -ones):
        assert worst(name, x.astype(np.float32)) <= BOUND
    small = random_floats(1)
    assert worst(name, small[np.abs(small) <= 1]) <= BOUND


def test_roots_and_angles():
    assert worst("cbrt", random_floats(0)) <= BOUND
    assert worst("atan2", random_floats(0), random_floats(1)) <= BOUND
    random = np.random.default_rng(2)
    pairs = random.standard_normal((2, SIZE)).astype(np.float32)
    assert worst("atan2", *pairs) <= BOUND


def test_powers():
    random = np.random.default_rng(0)
    x = np.exp2(random.uniform(-126, 127, SIZE)).astype(np.float32)
    y = random.uniform(-1, 1, SIZE)
    logs = np.log2(x.astype(np.float64))
    assert worst("power", x, (127 * y / logs).astype(np.float32)) <= BOUND
    ones = 1 + random.integers(-1000, 1000, SIZE) * 2.0**-23
    y = (2.0**19 * y).astype(np.float32)
    assert worst("power", ones.astype(np.float32), y) <= BOUND
    odd = random.integers(-9, 10, SIZE).astype(np.float32)
    assert worst("power", -(np.abs(x) ** np.float32(0.1)), odd) <= BOUND


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", OURS)
def test_all_halves(name, dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    every[np.abs(every) < np.finfo(np.float32).tiny] = 0
    function, exact = {**ONE, **TWO}[name]
    x = np.resize(every, SIZE)
    x = (x,) if name in ONE else (x, np.random.default_rng(0).permutation(x))
    with np.errstate(all="ignore"):
        want = exact(*(a.astype(np.float64) for a in x))
        assert worst(name, *(a[np.isfinite(want)] for a in x)) <= BOUND
    got, _ = kit(function, *x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


@pytest.mark.parametrize("name", OURS)
def test_special_values(name):
    values = [0, 1, 0.5, 2, 3, 1.5, 2**24, 2**23 + 1, 2e-38, 3e38, INF, 1e-30]
    one = np.float32([*values, *(-v for v in values), NAN, 1 + 2**-23])
    operands = (one,)
    if name in TWO:
        operands = tuple(a.ravel() for a in np.meshgrid(one, one))
    function, exact = {**ONE, **TWO}[name]
    with np.errstate(all="ignore"):
        want = exact(*(a.astype(np.float64) for a in operands))
        want = want.astype(np.float32)
    # Threads of XLA make zeros of subnormal numbers.
    tiny = np.abs(want) < np.finfo(np.float32).tiny
    want[tiny] = np.copysign(0, want[tiny])
    repeated = [np.resize(a, SIZE) for a in operands]
    got, _ = kit(function, *repeated)
    got = got[: want.size]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    usual = ~np.isnan(want)
    np.testing.assert_array_equal(
        np.signbit(got[usual]), np.signbit(want[usual])
    )
    np.testing.assert_allclose(got[usual], want[usual], rtol=1.2e-7, atol=0)


@pytest.mark.parametrize("name", OURS)
def test_subnormal_numbers_are_zeros(name):
    function, exact = {**ONE, **TWO}[name]
    operands = (np.full(SIZE, 1e-40, np.float32),)
    zeros = (0.0,)
    if name in TWO:
        operands += (np.full(SIZE, 0.5, np.float32),)
        zeros = (0.0, 0.5)
    got, _ = kit(function, *operands)
    np.testing.assert_allclose(got, np.float32(exact(*zeros)), rtol=1e-7)


def test_derivatives_and_vmap():
    x = np.linspace(0.1, 0.9, SIZE, dtype=np.float32)

    def loss(x):
        y = jnp.arcsin(x) + jnp.arctan2(x, 2 * x * x) + jnp.cbrt(x) ** x
        return (y + jnp.sin(x) * jnp.cos(x)).sum()

    slope = jax.grad(loss)
    curvature = jax.grad(lambda s: slope(s * x).sum())
    for f, operand in ((slope, x), (curvature, 1.0)):
        want = np.asarray(jax.jit(f)(operand))
        got, _ = kit(f, operand)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    rows = x.reshape(64, -1)
    got, text = kit(jax.vmap(jnp.arcsin, 1, 1), rows)
    assert is_ours(text)
    np.testing.assert_allclose(got, np.arcsin(rows), rtol=1e-6)


def test_what_is_left_to_xla():
    x = np.linspace(0, 1, SIZE, dtype=np.float32)
    for left in (x[:4095], x + 0j):
        _, text = kit(jnp.arcsin, left)
        assert "f64" not in text
    with jax.enable_x64(True):
        _, text = kit(jnp.cbrt, x.astype(np.float64))
    assert "stablehlo.cbrt" in text
    _, text = kit(lambda x: x**2.3, x)
    assert not is_ours(text)
    highest = jax.lax.AccuracyMode.HIGHEST
    _, text = kit(lambda x: jax.lax.cbrt(x, accuracy=highest), x)
    assert "stablehlo.cbrt" in text
    _, text = kit(jnp.sin, x)
    assert is_ours(text) == HAS_SINES


def test_exported_with_symbolic_sizes():
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n,), np.float32)
    for f, exact in (ONE["asin"], ONE["sine"]):
        with xla_ffi_accelerate.enabled("math"):
            exported = jax.export.export(jax.jit(f))(shape)
        x = np.float32([0.1, -0.7, 1])
        np.testing.assert_allclose(exported.call(x), exact(x), rtol=2e-7)
        assert "@xla_ffi_accelerate" not in exported.mlir_module()


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize("name", ["asin", *SINES[:1]])
def test_shards_stay_where_they_are(axis_type, name):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    x = np.linspace(-1, 1, SIZE, dtype=np.float32)
    sharded = jax.device_put(x, NamedSharding(mesh, P("i")))
    function, exact = ONE[name]
    with xla_ffi_accelerate.enabled("math"):
        lowered = jax.jit(lambda x: function(x)).lower(sharded)
        compiled = lowered.compile()
    assert is_ours(lowered.as_text())
    for collective in ("all-gather", "all-reduce"):
        assert collective not in compiled.as_text()
    got = compiled(sharded)
    assert got.sharding.is_equivalent_to(sharded.sharding, 1)
    np.testing.assert_allclose(got, exact(x), rtol=1e-6, atol=1e-7)


def test_only_by_name():
    x = np.zeros(SIZE, np.float32)
    with xla_ffi_accelerate.enabled():
        assert "math" not in xla_ffi_accelerate.status()
        text = jax.jit(jnp.arcsin).lower(x).as_text()
        assert not is_ours(text)
    with xla_ffi_accelerate.enabled("math"):
        assert xla_ffi_accelerate.status() == {"math": "close"}
