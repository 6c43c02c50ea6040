"""max(rms_norm(x) weight + x, 0): norm, skip connection and ReLU in one pass.

XLA fuses such elementwise ends with a norm of its own, but not with a custom
call; as one handler it is read and written once.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from xla_ffi_kit import _check
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.ffi_op import FfiOp
from xla_ffi_kit.ops import rms_norm_plain as _plain
from xla_ffi_kit.ops import rms_norm_weight as _weight
from xla_ffi_kit.ops.rms_norm_plain import widen
from xla_ffi_kit.ops.rms_norm_weight_residual import (
    rms_norm_weight_residual_tangent_op,
)

_NAME = "xla_ffi_kit.rms_norm_block"
_DTYPES = ("float16", "bfloat16", "float32", "float64")


# --- What the operations mean -------------------------------------------------


def _finished(y: jax.Array, x: jax.Array, weight: jax.Array) -> jax.Array:
    """max(y weight + x, 0), rounded once."""
    sum_ = widen(y) * widen(weight) + widen(x)
    return jax.nn.relu(sum_).astype(x.dtype)


def _fwd_reference(
    x: jax.Array, weight: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    y, scale = _plain.fwd_reference(widen(x), eps=eps)
    return _finished(y, x, weight), scale


def _reference(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    return _fwd_reference(x, weight, eps=eps)[0]


# --- The same by the handlers of the norm alone -------------------------------


def _composed(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    return _finished(_plain.rms_norm_op(x, eps=eps), x, weight)


def _composed_fwd(
    x: jax.Array, weight: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    y, scale = _plain.rms_norm_fwd_op(x, eps=eps)
    return _finished(y, x, weight), scale


# --- Derivatives --------------------------------------------------------------


def _tangent(
    y: jax.Array,
    scale: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    dx: jax.Array,
    dweight: jax.Array,
) -> jax.Array:
    # The norm of x, and x itself: transposed, one handler sums the cotangents.
    dy, dx = rms_norm_weight_residual_tangent_op(scale, x, weight, dx, dweight)
    return jnp.where(y > 0, dy + dx, jnp.zeros_like(dy))


def _jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x, weight), (dx, dweight) = primals, tangents
    y, scale = rms_norm_block_fwd_op(x, weight, eps=eps)
    return y, _tangent(y, scale, x, weight, dx, dweight)


def _fwd_jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x, weight), (dx, dweight) = primals, tangents
    y, scale = rms_norm_block_fwd_op(x, weight, eps=eps)
    dy = _tangent(y, scale, x, weight, dx, dweight)
    return (y, scale), (dy, _weight.scale_tangent(scale, x, dx))


def _make_op(name: str, reference: Any, composed: Any, jvp: Any) -> FfiOp:
    return FfiOp(
        name,
        reference,
        kernel_axes=1,
        handlers={"cpu": name, "cuda": composed},
        libraries=KIT_LIBRARIES,
        attributes=_weight.EPS,
        jvp=jvp,
        shared=(1,),
        batches_shared=True,
        partitioned=composed,
    )


rms_norm_block_op = _make_op(_NAME, _reference, _composed, _jvp)
rms_norm_block_fwd_op = _make_op(
    f"{_NAME}_fwd", _fwd_reference, _composed_fwd, _fwd_jvp
)


def rms_norm_block(x: Any, weight: Any, *, eps: float = 1e-6) -> jax.Array:
    """max(x / sqrt(mean(x^2) + eps) weight + x, 0) over the last axis.

    What a residual block does after its norm, `relu(rms_norm(x, weight) + x)`,
    in one pass and rounded once.

    Args:
      x: `[..., N]`, N >= 1; float16, bfloat16, float32 or float64.
      weight: `[N]`, of x's dtype.
      eps: a static number >= 0.

    Returns:
      y like x. Its derivative where y is 0 is 0.

    Raises:
      TypeError, ValueError: as `rms_norm`; a complex x is a TypeError.
    """
    x = _check.array(_NAME, "x", x)
    _check.dtype(_NAME, "x", x, _DTYPES)
    _check.min_rank(_NAME, "x", x, 1)
    _check.non_empty_axis(_NAME, "x", x, -1)
    eps = _check.non_negative_number(_NAME, "eps", eps)
    weight = _check.array(_NAME, "weight", weight)
    _check.same_dtype(_NAME, "weight", weight, "x", x)
    _check.shape(_NAME, "weight", weight, x.shape[-1:])
    return rms_norm_block_op(x, weight, eps=eps)
