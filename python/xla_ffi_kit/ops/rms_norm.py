"""RMS normalization over the last axis.

Zhang and Sennrich, Root Mean Square Layer Normalization, 2019,
arXiv:1910.07467; on the handlers of `xla_ffi/ops/rms_norm`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _check
from xla_ffi_kit._library import KIT_LIBRARIES
from xla_ffi_kit.ffi_op import FfiOp

_NAME = "xla_ffi_kit.rms_norm"
_DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def widen(x: jax.Array) -> jax.Array:
    """To the type that the kernels compute in: f32 for 16-bit floats."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _fwd_reference(x: jax.Array, *, eps: float) -> tuple[jax.Array, jax.Array]:
    wide = widen(x)
    power = jnp.mean(jnp.real(wide * jnp.conj(wide)), axis=-1)
    scale = jax.lax.rsqrt(power + jnp.asarray(eps, power.dtype))
    return (wide * scale[..., None]).astype(x.dtype), scale


def _reference(x: jax.Array, *, eps: float) -> jax.Array:
    return _fwd_reference(x, eps=eps)[0]


def _bwd_reference(scale: jax.Array, x: jax.Array, ct: jax.Array) -> jax.Array:
    wide, ct = widen(x), widen(ct)
    scale = scale[..., None]
    mean = jnp.mean(jnp.real(wide * ct), axis=-1, keepdims=True)
    dx = scale * ct - jnp.conj(wide) * (scale * scale * scale * mean)
    return dx.astype(x.dtype)


def _push_forward(
    scale: jax.Array, x: jax.Array, tangent: jax.Array
) -> jax.Array:
    """The Jacobian times a tangent.

    The real Jacobian is symmetric, so the backward handler serves both
    directions; JAX's cotangents of complex numbers are conjugated.
    """
    if jnp.iscomplexobj(x):
        return jnp.conj(rms_norm_bwd_op(scale, x, jnp.conj(tangent)))
    return rms_norm_bwd_op(scale, x, tangent)


def _bwd_transpose(
    cotangent: jax.Array, scale: jax.Array, x: jax.Array, _: Any
) -> jax.Array:
    return _push_forward(scale, x, cotangent)


def _fwd_jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x,), (tangent,) = primals, tangents
    y, scale = rms_norm_fwd_op(x, eps=eps)
    power = jnp.mean(jnp.real(jnp.conj(widen(x)) * widen(tangent)), axis=-1)
    scale_tangent = -(scale * scale * scale) * power
    return (y, scale), (_push_forward(scale, x, tangent), scale_tangent)


def _jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x,), (tangent,) = primals, tangents
    y, scale = rms_norm_fwd_op(x, eps=eps)
    return y, _push_forward(scale, x, tangent)


rms_norm_bwd_op = FfiOp(
    "xla_ffi_kit.rms_norm_bwd",
    _bwd_reference,
    kernel_axes=(0, 1, 1),
    handlers={
        "cpu": "xla_ffi_kit.rms_norm_bwd",
        "cuda": "xla_ffi_kit.rms_norm_bwd",
    },
    libraries=KIT_LIBRARIES,
    linear=(2,),
    transpose=_bwd_transpose,
)

rms_norm_fwd_op = FfiOp(
    "xla_ffi_kit.rms_norm_fwd",
    _fwd_reference,
    kernel_axes=1,
    handlers={
        "cpu": "xla_ffi_kit.rms_norm_fwd",
        "cuda": "xla_ffi_kit.rms_norm_fwd",
    },
    libraries=KIT_LIBRARIES,
    attributes={"eps": np.float64},
    jvp=_fwd_jvp,
)

rms_norm_op = FfiOp(
    _NAME,
    _reference,
    kernel_axes=1,
    handlers={"cpu": _NAME, "cuda": _NAME},
    libraries=KIT_LIBRARIES,
    attributes={"eps": np.float64},
    jvp=_jvp,
)


def check(op: str, x: Any, eps: Any) -> tuple[jax.Array, float]:
    """Checks the arguments that all variants of the operation share."""
    x = _check.array(op, "x", x)
    _check.dtype(op, "x", x, _DTYPES)
    _check.min_rank(op, "x", x, 1)
    _check.non_empty_axis(op, "x", x, -1)
    return x, _check.non_negative_number(op, "eps", eps)


def rms_norm(
    x: Any,
    weight: Any = None,
    *,
    residual: Any = None,
    eps: float = 1e-6,
) -> Any:
    """x / sqrt(mean(|x|^2) + eps) over the last axis, times `weight`.

    Sums are in f32 for 16-bit inputs (f64 for f64), and the normalized value
    is rounded once.

    Args:
      x: `[..., N]`, N >= 1; float16, bfloat16, float32, float64, complex64 or
        complex128.
      weight: `[N]`, of x's dtype; default: none.
      residual: of x's shape and dtype; added to x before it is normalized.
      eps: a static number >= 0.

    Returns:
      y like x; with a residual `(y, x + residual)`.

    Raises:
      TypeError: a dtype that is not one of these or differs from x's, an `eps`
        that is not a static number.
      ValueError: x of rank 0 or with an empty last axis, a `weight` or
        `residual` of the wrong shape, an `eps` that is negative or not finite.
    """
    x, eps = check(_NAME, x, eps)
    if weight is not None:
        weight = _check.array(_NAME, "weight", weight)
        _check.same_dtype(_NAME, "weight", weight, "x", x)
        _check.shape(_NAME, "weight", weight, x.shape[-1:])
    if residual is not None:
        residual = _check.array(_NAME, "residual", residual)
        _check.same_dtype(_NAME, "residual", residual, "x", x)
        _check.shape(_NAME, "residual", residual, x.shape)
        x = x + residual
    y = rms_norm_op(x, eps=eps)
    if weight is not None:
        y = y * weight
    return y if residual is None else (y, x)
