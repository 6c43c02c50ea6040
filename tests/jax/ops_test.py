"""Every dtype of each of the kit's operations, against NumPy in wide numbers.

check_op_test and hypothesis_test compare them with their references.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import modular_add, relu, rms_norm

jax.config.update("jax_enable_x64", True)

# Tolerance relative to the largest value; 16-bit results are rounded once.
FLOATS = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 1e-6,
    "float64": 1e-14,
    "complex64": 1e-6,
    "complex128": 1e-14,
}
REALS = [name for name in FLOATS if "complex" not in name]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]


def wide(x):
    x = np.asarray(x)
    return x.astype(np.complex128 if jnp.iscomplexobj(x) else np.float64)


def make(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    if dtype in SIGNED + UNSIGNED:
        x = rng.integers(0 if "u" in dtype else -9, 60, shape)
        return jnp.asarray(x, dtype)
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return jnp.asarray(x, dtype)


def tiled(b, c):
    index = np.arange(c.shape[-1]) % max(1, b.shape[-1])
    return wide(b)[..., index] + wide(c)


def normed(x):
    power = np.mean(np.abs(wide(x)) ** 2, axis=-1, keepdims=True)
    return wide(x) / np.sqrt(power + 1e-6)


# The operation, what it is, its dtypes, and shapes of its operands.
OPERATIONS = {
    "relu": (
        relu,
        lambda x: np.maximum(wide(x), 0),
        ["float8_e5m2", *REALS, *SIGNED],
        [[()], [(1,)], [(37,)], [(3, 0)], [(2, 3, 5)]],
    ),
    "modular_add": (
        modular_add,
        tiled,
        [*FLOATS, *SIGNED, *UNSIGNED],
        [
            *([(2, 3), (2, 7)], [(2, 7), (2, 3)], [(2, 33), (2, 33)]),
            *([(128,), (1024,)], [(2, 3, 1), (2, 3, 1)], [(0, 3), (0, 7)]),
            *([(2, 5), (2, 0)], [(2, 0), (2, 0)]),
        ],
    ),
    "rms_norm": (
        rms_norm,
        normed,
        FLOATS,
        [
            *([(1,)], [(7,)], [(3, 5)], [(2, 3, 33)], [(4, 1)]),
            *([(1, 257)], [(0, 8)], [(2, 0, 3)]),
        ],
    ),
    "rms_norm of a weight and a residual": (
        lambda x, w, r: rms_norm(x, w, residual=r),
        lambda x, w, r: (normed(x + r) * wide(w), wide(x + r)),
        REALS,
        [[(3, 9), (9,), (3, 9)]],
    ),
}


def assert_close(got, want, tolerance):
    assert got.shape == want.shape
    if got.size:
        error = np.max(np.abs(wide(got) - want))
        assert error <= tolerance * max(1, np.max(np.abs(want)))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, d) for name, (*_, dtypes, _) in OPERATIONS.items() for d in dtypes],
)
def test_values(name, dtype):
    op, expected, _, calls = OPERATIONS[name]
    jitted = jax.jit(op)
    for shapes in calls:
        operands = [make(s, dtype, i) for i, s in enumerate(shapes)]
        results = jitted(*operands)
        pairs = map(jax.tree.leaves, (results, expected(*operands)))
        for y, want in zip(*pairs, strict=True):
            assert y.dtype == dtype
            assert_close(y, want, FLOATS.get(dtype, 0))
    jax.tree.map(np.testing.assert_array_equal, op(*operands), results)


def test_integers_wrap_around():
    b, c = jnp.array([100], jnp.int8), jnp.array([100, -100], jnp.int8)
    np.testing.assert_array_equal(
        modular_add(b, c), np.array([-56, 0], np.int8)
    )


@pytest.mark.parametrize("dtype", ["float8_e5m2", *REALS])
def test_special_values_of_relu(dtype):
    x = jnp.array([np.nan, np.inf, -np.inf, -0.0, 0.0], dtype)
    np.testing.assert_array_equal(wide(relu(x)), [np.nan, np.inf, 0, 0, 0])


def test_the_derivative_of_relu_at_zero_is_zero():
    x = jnp.array([-1.0, -0.0, 0.0, 2.0])
    got = jax.grad(lambda x: relu(x).sum())(x)
    np.testing.assert_array_equal(got, [0, 0, 0, 1])
    np.testing.assert_array_equal(jax.jacfwd(relu)(x), np.diag(got))


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_gradient_of_rms_norm_is_that_of_the_reference(dtype):
    """In wider numbers; check_op and hypothesis_test compare those of one."""
    x, weight = (make((3, 17), dtype, i) for i in range(2))

    def loss(x, weight):
        y = rms_norm(x, eps=1e-3) * weight
        return jnp.sum(jnp.real(y * y)).astype(jnp.float64)

    got = jax.grad(loss)(x, weight)
    with xla_ffi_kit.use_reference():
        want = jax.grad(loss)(*(jnp.asarray(wide(v)) for v in (x, weight)))
    assert got.dtype == dtype
    assert_close(got, np.asarray(want), 10 * FLOATS[dtype])


def test_half_precision_does_not_overflow():
    x = jnp.full((2, 16), 300.0, jnp.float16)
    np.testing.assert_array_equal(rms_norm(x), jnp.ones_like(x))


def test_integer_operands_have_float0_tangents():
    b, c = jnp.arange(3), jnp.arange(7)
    zero = np.zeros(3, jax.dtypes.float0), np.zeros(7, jax.dtypes.float0)
    out, tangent = jax.jvp(modular_add, (b, c), zero)
    assert tangent.dtype == jax.dtypes.float0
    np.testing.assert_array_equal(out, modular_add(b, c))
    (got,) = jax.vjp(modular_add, b, c)[1](np.zeros(7, jax.dtypes.float0))[:1]
    assert got.dtype == jax.dtypes.float0
