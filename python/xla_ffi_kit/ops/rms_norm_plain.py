"""RMS normalization alone: the operations without weight and residual."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.ffi_op import FfiOp

_NAME = "xla_ffi_kit.rms_norm"


def widen(x: jax.Array) -> jax.Array:
    """To the type that the kernels compute in: f32 for 16-bit floats."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def fwd_reference(x: jax.Array, *, eps: float) -> tuple[jax.Array, jax.Array]:
    """y, and the factor 1 / sqrt(mean(|x|^2) + eps) of each row."""
    wide = widen(x)
    power = jnp.mean(jnp.real(wide * jnp.conj(wide)), axis=-1)
    scale = jax.lax.rsqrt(power + jnp.asarray(eps, power.dtype))
    return (wide * scale[..., None]).astype(x.dtype), scale


def reference(x: jax.Array, *, eps: float) -> jax.Array:
    """y = x / sqrt(mean(|x|^2) + eps)."""
    return fwd_reference(x, eps=eps)[0]


def bwd_reference(scale: jax.Array, x: jax.Array, ct: jax.Array) -> jax.Array:
    """The cotangent of x, from that of y."""
    wide, ct = widen(x), widen(ct)
    scale = scale[..., None]
    mean = jnp.mean(jnp.real(wide * ct), axis=-1, keepdims=True)
    dx = scale * ct - jnp.conj(wide) * (scale * scale * scale * mean)
    return dx.astype(x.dtype)


def push_forward(
    pull_back: Callable[[jax.Array], jax.Array], tangent: jax.Array
) -> jax.Array:
    """The Jacobian times a tangent, by what multiplies a cotangent with it.

    The real Jacobian is symmetric, so a backward handler serves both
    directions; JAX's cotangents of complex numbers are conjugated.
    """
    if jnp.iscomplexobj(tangent):
        return jnp.conj(pull_back(jnp.conj(tangent)))
    return pull_back(tangent)


def push_forward_by_bwd(
    scale: jax.Array, x: jax.Array, tangent: jax.Array
) -> jax.Array:
    """`push_forward` by the backward handler."""
    return push_forward(functools.partial(rms_norm_bwd_op, scale, x), tangent)


def _bwd_transpose(
    cotangent: jax.Array, scale: jax.Array, x: jax.Array, _: Any
) -> jax.Array:
    return push_forward_by_bwd(scale, x, cotangent)


def _fwd_jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x,), (tangent,) = primals, tangents
    y, scale = rms_norm_fwd_op(x, eps=eps)
    power = jnp.mean(jnp.real(jnp.conj(widen(x)) * widen(tangent)), axis=-1)
    scale_tangent = -(scale * scale * scale) * power
    return (y, scale), (push_forward_by_bwd(scale, x, tangent), scale_tangent)


def grad_reference(x: jax.Array, ct: jax.Array, *, eps: float) -> jax.Array:
    """The cotangent of x, from that of y and x alone."""
    return bwd_reference(fwd_reference(x, eps=eps)[1], x, ct)


def _push_forward_by_grad(
    x: jax.Array, tangent: jax.Array, eps: float
) -> jax.Array:
    pull_back = functools.partial(rms_norm_grad_op, x, eps=eps)
    return push_forward(pull_back, tangent)


def _grad_transpose(
    cotangent: jax.Array, x: jax.Array, _: Any, *, eps: float
) -> jax.Array:
    return _push_forward_by_grad(x, cotangent, eps)


# The derivative knows x alone, and the scale is computed again, which costs one
# multiplication an element that has been loaded anyway. If nobody wants y, XLA
# then drops the forward: three times faster than with a stored scale.
def _jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x,), (tangent,) = primals, tangents
    return rms_norm_op(x, eps=eps), _push_forward_by_grad(x, tangent, eps)


rms_norm_bwd_op = FfiOp(
    "xla_ffi_kit.rms_norm_bwd",
    bwd_reference,
    kernel_axes=(0, 1, 1),
    handlers={
        "cpu": "xla_ffi_kit.rms_norm_bwd",
        "cuda": "xla_ffi_kit.rms_norm_bwd",
    },
    libraries=KIT_LIBRARIES,
    linear=(2,),
    transpose=_bwd_transpose,
)

rms_norm_grad_op = FfiOp(
    "xla_ffi_kit.rms_norm_grad",
    grad_reference,
    kernel_axes=1,
    handlers={
        "cpu": "xla_ffi_kit.rms_norm_grad",
        "cuda": "xla_ffi_kit.rms_norm_grad",
    },
    libraries=KIT_LIBRARIES,
    attributes={"eps": np.float64},
    linear=(1,),
    transpose=_grad_transpose,
)

rms_norm_fwd_op = FfiOp(
    "xla_ffi_kit.rms_norm_fwd",
    fwd_reference,
    kernel_axes=1,
    handlers={
        "cpu": "xla_ffi_kit.rms_norm_fwd",
        "cuda": "xla_ffi_kit.rms_norm_fwd",
    },
    libraries=KIT_LIBRARIES,
    attributes={"eps": np.float64},
    jvp=_fwd_jvp,
)


def _make_op(name: str, **spec: Any) -> FfiOp:
    return FfiOp(
        name,
        reference,
        kernel_axes=1,
        handlers={"cpu": _NAME, "cuda": _NAME},
        libraries=KIT_LIBRARIES,
        attributes={"eps": np.float64},
        jvp=_jvp,
        **spec,
    )


rms_norm_op = _make_op(_NAME)
rms_norm_in_place_op = _make_op(f"{_NAME}_in_place", aliases={0: 0})
