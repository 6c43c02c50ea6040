"""accelerate("math"): within the stated bound, and as IEEE 754 has it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import program

import xla_ffi_accelerate

SIZE = 1 << 17
BOUND = 0.501  # ulp
INF, NAN = np.inf, np.nan
# On which the rules of sine, cosine and tangent cover nothing.
HAS_SINES = jax.__version_info__ < (0, 11)

# Name -> the function, its exact value, and the number of operands.
FUNCTIONS = {
    "acos": (jnp.arccos, np.arccos, 1),
    "asin": (jnp.arcsin, np.arcsin, 1),
    "cbrt": (jnp.cbrt, np.cbrt, 1),
    "atan2": (jnp.arctan2, np.arctan2, 2),
    "power": (jax.lax.pow, np.power, 2),
}
SINES = {
    "cosine": (jnp.cos, np.cos, 1),
    "sine": (jnp.sin, np.sin, 1),
    "tan": (jnp.tan, np.tan, 1),
}
if HAS_SINES:
    FUNCTIONS |= SINES
NAMES = ["math"]


def kit(f, *x):
    """The result under `accelerate("math")`."""
    with xla_ffi_accelerate.enabled(*NAMES):
        return jax.tree.map(np.asarray, jax.jit(lambda *x: f(*x))(*x))


def is_ours(f, *x):
    """Whether a program of f32 computes in double precision."""
    return "xf64>" in program(f, *x, names=NAMES)


def exactly(name, *x):
    with np.errstate(all="ignore"):
        return FUNCTIONS[name][1](*(a.astype(np.float64) for a in x))


def check(name, *operands):
    """Within the bound, where result and operands are normal."""
    function = FUNCTIONS[name][0]
    assert is_ours(function, *operands[0])
    compiled = lambda many: [function(*x) for x in many]  # noqa: E731
    found = kit(compiled, operands)
    for x, got in zip(operands, found, strict=True):
        want, limits = exactly(name, *x), jnp.finfo(got.dtype)
        is_normal = np.abs(want) < limits.max
        is_normal &= np.abs(want) >= limits.tiny
        for a in x:
            is_normal &= (np.abs(a) >= limits.tiny) | (a == 0)
        want, value = want[is_normal], got[is_normal].astype(np.float64)
        ulp = np.exp2(np.floor(np.log2(np.abs(want))) - limits.nmant)
        assert want.size
        assert (np.abs(value - want) / ulp).max() <= BOUND, name
    return found


def random_floats(seed, size=SIZE):
    """Of any sign, exponent and mantissa, but finite."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 255 << 23, size, np.uint32)
    bits |= random.integers(0, 2, size, np.uint32) << 31
    return bits.view(np.float32)


@pytest.mark.skipif(not HAS_SINES, reason="XLA's own")
@pytest.mark.parametrize("name", SINES)
def test_sines(name):
    random = np.random.default_rng(0)
    near = (np.arange(1, SIZE + 1) * (np.pi / 2)).astype(np.float32)
    check(
        name,
        (random_floats(1),),
        ((100 * random.standard_normal(SIZE)).astype(np.float32),),
        (near,),
        (near[::-1] * np.float32(1e5),),
        # On both sides of where another reduction begins.
        (np.float32(2**20) + np.arange(-SIZE // 2, SIZE // 2, dtype="f"),),
    )
    # Where an array has a huge element, the others stay the same.
    x = np.linspace(-1000, 1000, SIZE, dtype=np.float32)
    huge = x.copy()
    huge[7] = 1e18  # whose square is finite
    want, got = (kit(FUNCTIONS[name][0], y) for y in (x, huge))
    np.testing.assert_array_equal(np.delete(got, 7), np.delete(want, 7))
    np.testing.assert_allclose(got[7], exactly(name, huge)[7], rtol=1e-6)


def test_inverse_sines_roots_and_angles():
    random = np.random.default_rng(0)
    ones = 1 - random.integers(0, 2**20, SIZE) * 2.0**-24
    small = random_floats(1, 2 * SIZE)
    small = small[np.abs(small) <= 1][: SIZE // 2]
    operands = random.uniform(-1, 1, SIZE), ones, -ones, small
    for name in ("acos", "asin"):
        check(name, *((x.astype(np.float32),) for x in operands))
    check("cbrt", (random_floats(0),))
    pairs = random.standard_normal((2, SIZE)).astype(np.float32)
    check("atan2", (random_floats(0), random_floats(1)), tuple(pairs))


def test_powers():
    random = np.random.default_rng(0)
    x = np.exp2(random.uniform(-126, 127, SIZE)).astype(np.float32)
    y = random.uniform(-1, 1, SIZE)
    logs = np.log2(x.astype(np.float64))
    ones = 1 + random.integers(-1000, 1000, SIZE) * 2.0**-23
    odd = random.integers(-9, 10, SIZE).astype(np.float32)
    check(
        "power",
        (x, (127 * y / logs).astype(np.float32)),
        (ones.astype(np.float32), (2.0**19 * y).astype(np.float32)),
        (-(np.abs(x) ** np.float32(0.1)), odd),
    )


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_halves(name, dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    every[np.abs(every) < np.finfo(np.float32).tiny] = 0
    every = np.resize(every, SIZE)
    x = (every,)
    if FUNCTIONS[name][2] == 2:
        x = every, np.random.default_rng(0).permutation(every)
    (got,) = check(name, x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exactly(name, *x)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name):
    function, exact, count = FUNCTIONS[name]
    values = [0, 1, 0.5, 2, 3, 1.5, 2**24, 2**23 + 1, 2e-38, 3e38, INF, 1e-30]
    one = np.float32([*values, *(-v for v in values), NAN, 1 + 2**-23])
    operands = tuple(a.ravel() for a in np.meshgrid(*[one] * count))
    want = exactly(name, *operands)
    with np.errstate(all="ignore"):
        want = want.astype(np.float32)
    # Threads of XLA make zeros of subnormal numbers.
    tiny = np.abs(want) < np.finfo(np.float32).tiny
    want[tiny] = np.copysign(0, want[tiny])
    got = kit(function, *(np.resize(a, SIZE) for a in operands))[: want.size]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    usual = ~np.isnan(want)
    np.testing.assert_array_equal(
        np.signbit(got[usual]), np.signbit(want[usual])
    )
    np.testing.assert_allclose(got[usual], want[usual], rtol=1.2e-7, atol=0)
    # Subnormal numbers are zeros.
    small = [np.full(SIZE, v, np.float32) for v in (1e-40, 0.5)[:count]]
    zero = np.float32(exact(*(0.0, 0.5)[:count]))
    np.testing.assert_allclose(kit(function, *small), zero, rtol=1e-7)


def test_what_is_left_to_xla():
    x = np.linspace(0, 1, SIZE, dtype=np.float32)
    for left in (x[:4095], x + 0j):
        assert "f64" not in program(jnp.arcsin, left, names=NAMES)
    with jax.enable_x64(True):
        text = program(jnp.cbrt, x.astype(np.float64), names=NAMES)
    assert "stablehlo.cbrt" in text
    assert not is_ours(lambda x: x**2.3, x)
    highest = jax.lax.AccuracyMode.HIGHEST
    accurate = lambda x: jax.lax.cbrt(x, accuracy=highest)  # noqa: E731
    assert "stablehlo.cbrt" in program(accurate, x, names=NAMES)
    assert is_ours(jnp.sin, x) == HAS_SINES


def test_exported_with_symbolic_sizes():
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n,), np.float32)
    for f, exact, _ in (FUNCTIONS["asin"], SINES["sine"]):
        with xla_ffi_accelerate.enabled("math"):
            exported = jax.export.export(jax.jit(f))(shape)
        x = np.float32([0.1, -0.7, 1])
        np.testing.assert_allclose(exported.call(x), exact(x), rtol=2e-7)
        assert "@xla_ffi_accelerate" not in exported.mlir_module()
