"""A custom call has no derivative; custom_vjp gives it one, FfiOp all."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rms_norm import PATH, reference, rms_norm

import xla_ffi_kit
from xla_ffi_kit.testing import Case, check_op

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def loss(norm):
    return lambda x: jnp.sum(norm(x) ** 2 * x)


def test_a_raw_call_has_none():
    with pytest.raises(ValueError, match="`rms_norm` cannot be differentiated"):
        jax.grad(loss(rms_norm))(X)


def call(target, results, *operands, **attributes):
    return jax.ffi.ffi_call(target, results, vmap_method="broadcast_all")(
        *operands, **attributes
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def norm_by_hand(x, eps=1e-5):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return call("rms_norm", out, x, eps=np.float32(eps))


def norm_fwd(x, eps):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    scales = jax.ShapeDtypeStruct(x.shape[:-1], x.dtype)
    y, scale = call("rms_norm_fwd", (out, scales), x, eps=np.float32(eps))
    return y, (scale, x)  # what the backward pass needs, beside ct


def norm_bwd(eps, saved, ct):
    scale, x = saved
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return (call("rms_norm_bwd", out, scale, x, ct),)


norm_by_hand.defvjp(norm_fwd, norm_bwd)


def fwd_reference(x, *, eps=1e-5):
    scale = jax.lax.rsqrt(jnp.mean(x * x, -1) + eps)
    return x * scale[..., None], scale


def bwd_reference(scale, x, ct):
    scale = scale[..., None]
    return scale * ct - x * scale**3 * jnp.mean(x * ct, -1, keepdims=True)


fwd_op = xla_ffi_kit.FfiOp(
    "rms_norm_fwd",
    fwd_reference,
    kernel_axes=1,
    libraries=[PATH],
    attributes={"eps": np.float32},
)
bwd_op = xla_ffi_kit.FfiOp(
    "rms_norm_bwd",
    bwd_reference,
    axes="(),(n),(n)->(n)",
    libraries=[PATH],
    linear="ct",  # in ct; and symmetric: its transpose is itself
    transpose=lambda ct, scale, x, _: bwd_op(scale, x, ct),
)


def jvp(primals, tangents, *, eps):
    (x,), (v,) = primals, tangents
    y, scale = fwd_op(x, eps=eps)
    return y, bwd_op(scale, x, v)


norm = xla_ffi_kit.FfiOp(
    "rms_norm",
    reference,
    kernel_axes=1,
    libraries=[PATH],
    attributes={"eps": np.float32},
    jvp=jvp,
)


@pytest.mark.parametrize("of", [norm_by_hand, norm])
def test_the_gradient_is_the_reference_s_by_the_backward_handler(of):
    gradient = jax.jit(jax.grad(loss(of)))
    want = jax.grad(loss(reference))(X)
    np.testing.assert_allclose(gradient(X), want, 1e-4, 1e-5)
    text = gradient.lower(X).as_text()
    assert "@rms_norm_fwd(" in text and "@rms_norm_bwd(" in text
    rows = jax.vmap(jax.grad(loss(of)))(X)
    np.testing.assert_allclose(rows, want, 1e-4, 1e-5)


def test_custom_vjp_has_no_forward_mode_and_no_second_derivative():
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(norm_by_hand, (X,), (X,))
    with pytest.raises(ValueError, match="`rms_norm_fwd` cannot be diff"):
        jax.grad(lambda x: jax.grad(loss(norm_by_hand))(x).sum())(X)


def test_an_ffi_op_has_both():
    assert check_op(norm, [Case("float32[2,3]", eps=1e-3)])
