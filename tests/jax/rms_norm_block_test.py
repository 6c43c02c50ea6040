"""rms_norm_block beside what it fuses."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import rms_norm_block
from xla_ffi_kit.ops.rms_norm import BLOCK

jax.config.update("jax_enable_x64", True)

ULPS = {"float64": 2e-14, "float32": 1e-5, "bfloat16": 1e-2, "float16": 2e-3}


def make(shape, dtype):
    rng = np.random.default_rng(len(shape))
    return jnp.asarray(rng.normal(size=shape), dtype)


def wide(x):
    return np.asarray(x).astype(np.float64)


def plain(x, weight, eps=1e-6):
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    power = jnp.mean(wide * wide, axis=-1, keepdims=True)
    norm = wide * jax.lax.rsqrt(power + eps)
    return jax.nn.relu(norm * weight.astype(wide.dtype) + wide).astype(x.dtype)


@pytest.mark.parametrize("dtype", ULPS)
@pytest.mark.parametrize("shape", [(64,), (3, 5, 33), (0, 4)])
def test_values_and_gradients(dtype, shape):
    x, weight = make(shape, dtype), make(shape[-1:], dtype)
    ct = jnp.cos(x)
    close = {"rtol": ULPS[dtype], "atol": 8 * ULPS[dtype]}
    got, pull = jax.vjp(rms_norm_block, x, weight)
    want, pull_plain = jax.vjp(plain, x, weight)
    np.testing.assert_allclose(*map(wide, (got, want)), **close)
    for a, b in zip(pull(ct), pull_plain(ct), strict=True):
        np.testing.assert_allclose(wide(a), wide(b), **close)


@pytest.mark.parametrize("dtype", ULPS)
def test_zeros_have_the_signs_of_the_reference(dtype):
    x = jnp.asarray([-0.0, 0.0, 1.0, -1.0, -0.0], dtype)
    for w in (1.0, -1.0, 0.0, -0.0):
        weight = jnp.full(x.shape, w, dtype)
        got, want = rms_norm_block(x, weight), plain(x, weight)
        np.testing.assert_array_equal(*map(np.signbit, map(wide, (got, want))))


def test_one_handler_each_way_and_no_reference():
    x, weight = make((4, 8), "float32"), make((8,), "float32")
    f = jax.jit(jax.grad(lambda x, w: rms_norm_block(x, w).sum(), (0, 1)))
    text = f.lower(x, weight).compile().as_text()
    assert text.count("custom-call(") == 2
    assert '"xla_ffi_kit.rms_norm"' in text
    assert '"xla_ffi_kit.rms_norm_weight_bwd"' in text
    assert "rsqrt" not in text


def test_weights_by_vmap_run_one_handler():
    x, weight = make((3, 4, 8), "float32"), make((3, 8), "float32")
    f = jax.jit(jax.vmap(rms_norm_block))
    text = f.lower(x, weight).compile().as_text()
    assert text.count("custom-call(") == 1
    assert '"xla_ffi_kit.rms_norm"' in text
    np.testing.assert_allclose(
        f(x, weight), jax.vmap(plain)(x, weight), rtol=1e-5
    )


@pytest.mark.parametrize("op", [BLOCK.op, BLOCK.fwd_op])
def test_made_of_the_norm_where_rows_are_partitioned(op):
    x, weight = make((4, 8), "float32"), make((8,), "float32")
    attributes = {"eps": 1e-3, "epilogue": "add_relu"}
    f = jax.jit(functools.partial(op.partitioned, **attributes))
    text = f.lower(x, weight).as_text()
    assert "@xla_ffi_kit.rms_norm" in text and "add_relu" not in text
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-6),
        f(x, weight),
        op(x, weight, **attributes),
    )


def test_a_complex_operand_is_refused():
    with pytest.raises(TypeError, match="rms_norm_block: operand x: expected"):
        xla_ffi_kit.rms_norm_block(jnp.ones(3, "complex64"), jnp.ones(3))
