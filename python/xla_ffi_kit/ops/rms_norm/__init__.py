"""RMS normalization over the last axis.

Zhang and Sennrich, Root Mean Square Layer Normalization, 2019,
arXiv:1910.07467. The handlers are in `xla_ffi/ops/rms_norm`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit.ops.rms_norm import _reference
from xla_ffi_kit.ops.rms_norm._ops import (
    rms_norm_bwd_op,
    rms_norm_fwd_op,
    rms_norm_in_place_op,
    rms_norm_op,
    rms_norm_weight_bwd_op,
    rms_norm_weight_jvp_op,
)

__all__ = [
    "check",
    "rms_norm",
    "rms_norm_bwd_op",
    "rms_norm_fwd_op",
    "rms_norm_in_place_op",
    "rms_norm_op",
    "rms_norm_weight_bwd_op",
    "rms_norm_weight_jvp_op",
]

_NAME = "xla_ffi_kit.rms_norm"
_NAMES = (*_dtypes.FLOATS, *_dtypes.COMPLEX)
_DTYPES = frozenset(map(jnp.dtype, _NAMES))


def check(op: str, x: ArrayLike, eps: object) -> tuple[jax.Array, float]:
    """Checks the arguments that all variants of the operation share."""
    x = _check.array(op, "x", x)
    if x.dtype not in _DTYPES:  # which is faster than to ask for its name
        _check.dtype(op, "x", x, _NAMES)
    _check.min_rank(op, "x", x, 1)
    _check.non_empty_axis(op, "x", x, -1)
    return x, _check.non_negative_number(op, "eps", eps)


def _check_weight(op: str, weight: ArrayLike, x: jax.Array) -> jax.Array:
    weight = _check.array(op, "weight", weight)
    _check.same_dtype(op, "weight", weight, "x", x)
    _check.shape(op, "weight", weight, x.shape[-1:])
    return weight


@overload
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    residual: None = None,
    eps: float = 1e-6,
    in_place: bool = False,
) -> jax.Array: ...


@overload
def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    residual: ArrayLike,
    eps: float = 1e-6,
    in_place: bool = False,
) -> tuple[jax.Array, jax.Array]: ...


def rms_norm(
    x: ArrayLike,
    weight: ArrayLike | None = None,
    *,
    residual: ArrayLike | None = None,
    eps: float = 1e-6,
    in_place: bool = False,
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """`x / sqrt(mean(|x|^2) + eps)` over the last axis, times `weight`.

    Forward and backward each read x once. Sums are in f32 for 16-bit inputs
    (f64 for f64), and the result is rounded once.

    Args:
      x: `[..., N]`, N >= 1; float16, bfloat16, float32 or float64, which the
        handlers take, or complex64 or complex128, which run plain JAX.
      weight: `[N]`, of x's dtype; default: none.
      residual: an array with x's shape and dtype, which is added to x before
        the sum is normalized.
      eps: a static number >= 0.
      in_place: whether to write y to x's memory, and the sum to the residual's.
        Use it for arguments that are donated (`jax.jit(f, donate_argnums=0)`)
        or not used again: large arrays then cause no page faults, which take
        longer than the computation. XLA copies other arguments first.

    Returns:
      y, with the shape and dtype of x; with a residual `(y, x + residual)`.

    Raises:
      TypeError: a dtype is not supported or differs from x's, or `eps` is not a
        static number.
      ValueError: x has rank 0 or an empty last axis, `weight` or `residual` has
        the wrong shape, or `eps` is negative or not finite.
    """
    x, eps = check(_NAME, x, eps)
    if weight is not None:
        weight = _check_weight(_NAME, weight, x)
    if residual is not None:
        residual = _check.array(_NAME, "residual", residual)
        _check.same_dtype(_NAME, "residual", residual, "x", x)
        _check.shape(_NAME, "residual", residual, x.shape)
        if weight is None:  # one pass, and the product is exact
            weight = jnp.ones(x.shape[-1:], x.dtype)
    run: Callable[..., Any] = rms_norm_in_place_op if in_place else rms_norm_op
    if x.dtype.kind == "c":
        run = _reference.forward
    results: jax.Array | tuple[jax.Array, jax.Array]
    results = run(x, weight, residual, eps=eps)
    return results
