"""rms_norm: values, every dtype, what calls which handler, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import run_python, said

import xla_ffi_kit
from xla_ffi_kit import rms_norm

jax.config.update("jax_enable_x64", True)

# Tolerance relative to the largest value; 16-bit results are rounded once.
DTYPES = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 1e-6,
    "float64": 1e-14,
    "complex64": 1e-6,
    "complex128": 1e-14,
}
SHAPES = [(1,), (7,), (3, 5), (2, 3, 33), (4, 1), (1, 257), (0, 8), (2, 0, 3)]


def make(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return jnp.asarray(x, dtype)


def expected(x, eps=1e-6):
    wide = np.asarray(x).astype(
        np.complex128 if jnp.iscomplexobj(x) else np.float64
    )
    power = np.mean(np.abs(wide) ** 2, axis=-1, keepdims=True)
    return wide / np.sqrt(power + eps)


def assert_close(got, want, tolerance):
    got = np.asarray(got)
    assert got.shape == np.shape(want)
    if got.size:
        wide = got.astype(np.result_type(np.asarray(want).dtype, np.float64))
        error = np.max(np.abs(wide - np.asarray(want)))
        assert error <= tolerance * max(1, np.max(np.abs(want)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward(shape, dtype):
    x = make(shape, dtype)
    for function in (rms_norm, jax.jit(rms_norm)):
        y = function(x)
        assert y.dtype == x.dtype
        assert_close(y, expected(x), DTYPES[dtype])


@pytest.mark.parametrize("eps", [0, 1e-12, 0.5, np.float32(0.5), 3])
def test_eps(eps):
    x = make((3, 6), "float64")
    assert_close(rms_norm(x, eps=eps), expected(x, float(eps)), 1e-14)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_variant_has_eps(count, in_place):
    ones = jnp.ones((2, 4), "float32")
    y = rms_norm(
        ones,
        ones[0] if count > 1 else None,
        residual=0 * ones if count > 2 else None,
        eps=3,
        in_place=in_place,
    )
    np.testing.assert_allclose(jax.tree.leaves(y)[0], 0.5, rtol=1e-6)


@pytest.mark.parametrize("eps", [np.float32(1e-2), np.float64(1e-3)])
def test_eps_of_a_raw_call_has_either_type(eps):
    x = jnp.arange(12.0).reshape(3, 4)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = jax.ffi.ffi_call("xla_ffi_kit.rms_norm", out)(x, eps=eps)
    np.testing.assert_array_equal(y, rms_norm(x, eps=float(eps)))


def test_half_precision_does_not_overflow():
    x = jnp.full((2, 16), 300.0, jnp.float16)
    np.testing.assert_array_equal(rms_norm(x), jnp.ones_like(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_is_that_of_the_reference(dtype):
    """In wider numbers; check_op and hypothesis_test compare those of one."""
    x, weight = make((3, 17), dtype), make((3, 17), dtype, 1)

    def loss(x):
        y = rms_norm(x, eps=1e-3) * weight
        return jnp.sum(jnp.real(y * y)).astype(jnp.float64)

    got = jax.grad(loss)(x)
    with xla_ffi_kit.use_reference():
        wide = "complex128" if jnp.iscomplexobj(x) else "float64"
        weight = weight.astype(wide)
        want = jax.grad(loss)(x.astype(wide))
    assert got.dtype == x.dtype
    assert_close(got, np.asarray(want), 10 * DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_weight_and_residual(dtype):
    x, r = make((3, 9), dtype), make((3, 9), dtype, 1)
    w = make((9,), dtype, 2)
    y, total = rms_norm(x, w, residual=r)
    np.testing.assert_array_equal(total, x + r)
    wide = np.asarray(w, np.float64)
    assert_close(y, expected(x + r) * wide, 2 * DTYPES[dtype])
    assert_close(rms_norm(x, weight=w), expected(x) * wide, 2 * DTYPES[dtype])


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("which", [(), (0,), (1,), (0, 1)])
def test_complex_numbers_run_no_handler(which, in_place):
    x = make((3, 5), "complex128")
    given = [make((5,), "complex128", 1), make((3, 5), "complex128", 2)]
    w, r = (g if i in which else None for i, g in enumerate(given))

    def norm(x, in_place=in_place):
        y = rms_norm(x, w, residual=r, in_place=in_place)
        return y[0] if r is not None else y

    def plain(x):
        h = x if r is None else x + r
        power = jnp.mean(jnp.real(h * jnp.conj(h)), -1, keepdims=True)
        y = h / jnp.sqrt(power + 1e-6)
        return y if w is None else y * w

    assert_close(norm(x), plain(x), 1e-14)
    got, want = (jax.vjp(f, x)[1](x)[0] for f in (norm, plain))
    assert_close(got, want, 1e-13)
    slope = jax.jit(lambda x: jax.vjp(norm, x)[1](x))
    assert "custom_call" not in slope.lower(x).as_text()


ONES = np.ones((2, 3), np.float32)
# What the error says of x, weight and residual.
BAD = {
    "ValueError: operand x: expected rank >= 1, got rank 0": [np.float32(1)],
    "ValueError: operand x: expected axis -1 of size >= 1, got 0 (shape "
    "[2, 0])": [np.ones((2, 0), np.float32)],
    "TypeError: operand x: expected dtype float16, bfloat16, float32, float64, "
    "complex64, complex128, got int32": [np.ones(3, np.int32)],
    "TypeError: operand x: expected an array, got 'text' (str)": ["text"],
    "ValueError: operand weight: expected shape [3], got [2]": [
        ONES,
        ONES[0, :2],
    ],
    "TypeError: operand weight: expected dtype float32 as operand x has, got "
    "float64": [ONES, np.ones(3, np.float64)],
    "ValueError: operand residual: expected shape [2, 3], got [3]": [
        ONES,
        None,
        ONES[0],
    ],
}
BAD_EPS = {
    "ValueError": {"-1.0": -1.0, "nan": float("nan"), "inf": float("inf")},
    "TypeError": {
        "'1e-6' (str)": "1e-6",
        "True (bool)": True,
        "array([1.]) (ndarray)": np.ones(1),
    },
}


@pytest.mark.parametrize("message", BAD)
def test_bad_operands(message):
    def call(x, weight=None, residual=None):
        return rms_norm(x, weight, residual=residual)

    assert said(call, *BAD[message], of="xla_ffi_kit.rms_norm") == message
    # The process goes on working.
    assert_close(rms_norm(ONES), expected(ONES), 1e-6)


@pytest.mark.parametrize("error", BAD_EPS)
def test_bad_eps(error):
    for got, eps in BAD_EPS[error].items():
        assert said(rms_norm, ONES, eps=eps) == (
            f"{error}: xla_ffi_kit.rms_norm: argument eps: expected a finite "
            f"number >= 0, got {got}"
        )


def test_traced_eps():
    f = jax.jit(lambda x, eps: rms_norm(x, eps=eps))
    assert said(f, ONES, 1e-6) == (
        "TypeError: xla_ffi_kit.rms_norm: argument eps: expected a static "
        "number, got a traced one; pass it as a Python number (jit: "
        "static_argnames)"
    )


# --- JAX's strict modes -------------------------------------------------------

_STRICT = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
from xla_ffi_kit import modular_add, relu, rms_norm, use_reference

def total(results):
    leaves = jax.tree.leaves(results)
    return sum(jnp.sum(jnp.sin(jnp.real(y).astype(np.float32))) for y in leaves)

def program(*operands):
    def loss(x, w, h):
        return (
            total(rms_norm(x))
            + total(rms_norm(x, w))
            + total(rms_norm(x, w, residual=h))
            + total(rms_norm(x, residual=h))
            + total(relu(x))
            + total(modular_add(h[..., :2], x))
        )
    def second(*operands):
        return total(jax.grad(loss, (0, 1, 2))(*operands))
    mapped = jax.vmap(jax.grad(loss, (0, 1, 2)))(*(x[None] for x in operands))
    pushed = jax.jvp(loss, operands, operands)
    return mapped, pushed, jax.grad(second, (0, 1, 2))(*operands)

x = jnp.asarray(np.arange(1, 13).reshape(3, 4) / 10, "bfloat16")
for y in jax.tree.leaves(jax.jit(program)(x, x[0], x)):
    assert np.isfinite(np.asarray(y, np.float32)).all()
z = x.astype(np.complex64)
jax.vjp(lambda *z: rms_norm(*z[:2], residual=z[2]), z, z[0], z)[1]((z, z))
"""


def test_no_operation_promotes_ranks_or_dtypes():
    """In a process of its own, as what is traced before would hide it."""
    done = run_python(_STRICT)
    assert done.returncode == 0, done.stderr
