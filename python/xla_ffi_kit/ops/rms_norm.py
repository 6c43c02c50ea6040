"""RMS normalization over the last axis.

Zhang and Sennrich, Root Mean Square Layer Normalization, 2019,
arXiv:1910.07467; on the handlers of `xla_ffi/ops/rms_norm`.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from xla_ffi_kit import _check
from xla_ffi_kit.ops.rms_norm_plain import (
    rms_norm_bwd_op,
    rms_norm_fwd_op,
    rms_norm_grad_op,
    rms_norm_in_place_op,
    rms_norm_op,
    widen,
)
from xla_ffi_kit.ops.rms_norm_weight import (
    rms_norm_weight_bwd_op,
    rms_norm_weight_fwd_op,
    rms_norm_weight_in_place_op,
    rms_norm_weight_op,
    rms_norm_weight_tangent_op,
)
from xla_ffi_kit.ops.rms_norm_weight_residual import (
    rms_norm_weight_residual_bwd_op,
    rms_norm_weight_residual_fwd_op,
    rms_norm_weight_residual_in_place_op,
    rms_norm_weight_residual_op,
    rms_norm_weight_residual_tangent_op,
)

__all__ = [
    "check",
    "rms_norm",
    "rms_norm_bwd_op",
    "rms_norm_fwd_op",
    "rms_norm_grad_op",
    "rms_norm_in_place_op",
    "rms_norm_op",
    "rms_norm_weight_bwd_op",
    "rms_norm_weight_fwd_op",
    "rms_norm_weight_in_place_op",
    "rms_norm_weight_op",
    "rms_norm_weight_residual_bwd_op",
    "rms_norm_weight_residual_fwd_op",
    "rms_norm_weight_residual_in_place_op",
    "rms_norm_weight_residual_op",
    "rms_norm_weight_residual_tangent_op",
    "rms_norm_weight_tangent_op",
    "widen",
]

_NAME = "xla_ffi_kit.rms_norm"
_DTYPES = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
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
    in_place: bool = False,
) -> Any:
    """x / sqrt(mean(|x|^2) + eps) over the last axis, times `weight`.

    One pass, forward and backward. Sums are in f32 for 16-bit inputs (f64 for
    f64), and the result is rounded once.

    Args:
      x: `[..., N]`, N >= 1; float16, bfloat16, float32, float64, complex64 or
        complex128.
      weight: `[N]`, of x's dtype; default: none.
      residual: of x's shape and dtype; added to x before it is normalized.
      eps: a static number >= 0.
      in_place: write y to x's memory, and the sum to the residual's. For
        arguments that are donated (`jax.jit(f, donate_argnums=0)`) or not used
        again: large arrays then cost no page faults, which take longer than the
        work. Others XLA copies first.

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
        if weight is None:  # one pass all the same, and times one is exact
            weight = jnp.ones(x.shape[-1:], x.dtype)
        op = (rms_norm_weight_residual_op, rms_norm_weight_residual_in_place_op)
        return op[in_place](x, weight, residual, eps=eps)
    if weight is not None:
        op = (rms_norm_weight_op, rms_norm_weight_in_place_op)
        return op[in_place](x, weight, eps=eps)
    return (rms_norm_op, rms_norm_in_place_op)[in_place](x, eps=eps)
