"""RMS normalization as operations on three handlers.

Each takes some sets of operands, and gives what these ask for.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from jax.core import max_dim, min_dim

from xla_ffi_kit._check import Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.spec import Advanced, Result
from xla_ffi_kit.ops.rms_norm import _reference

_NAME = "xla_ffi_kit.rms_norm"
_Array = jax.Array
_Maybe = jax.Array | None
# An operand that a transposition gives a value, or only a type.
_Linear = jax.Array | jax.ShapeDtypeStruct

# --- Without a weight ---------------------------------------------------------
# The Jacobian is symmetric, so a backward handler serves both directions.

rms_norm_bwd_op: FfiOp[_Array] = FfiOp(
    f"{_NAME}_bwd",
    _reference.backward,
    libraries=KIT_LIBRARIES,
    linear="ct",
    transpose=lambda ct, x, _, scale, **eps: rms_norm_bwd_op(
        x, ct, scale, **eps
    ),
    advanced=Advanced(part_of=_NAME),
)

# --- With a weight ------------------------------------------------------------
# The jvp operation is there to be transposed: reverse mode then is the backward
# handler, which gives the gradients of x and weight together.


def _composed_backward(
    x: _Array, ct: _Array, scale: _Array, weight: _Array, ct_sum: _Maybe
) -> tuple[_Array, _Array]:
    """Computes the same with the handler that has no weight."""
    dx = rms_norm_bwd_op(x, _reference.finish(ct, x, weight), scale)
    dweight = _reference.weight_backward(x, ct, scale)
    return dx if ct_sum is None else dx + ct_sum, dweight


def _composed_jvp(
    x: _Array, dx: _Array, scale: _Array, weight: _Array, dweight: _Array
) -> tuple[_Array, _Array]:
    """Computes the same with the handler that has no weight."""
    widen, of_rows = _reference.widen, _reference.of_rows
    dy = widen(rms_norm_bwd_op(x, dx, scale)) * of_rows(weight, x)
    dy = dy + widen(x) * scale[..., None] * of_rows(dweight, x)
    return dy.astype(x.dtype), dx


def _transpose_weight_backward(
    cts: tuple[_Maybe, _Maybe],
    x: _Array,
    _: _Linear,
    scale: _Array,
    weight: _Array,
    __: _Linear | None,
) -> tuple[_Array, _Array]:
    dx, dweight = cts
    dx = jnp.zeros_like(x) if dx is None else dx
    dweight = jnp.zeros_like(weight) if dweight is None else dweight
    return rms_norm_weight_jvp_op(x, dx, scale, weight, dweight)


def _transpose_weight_jvp(
    cts: tuple[_Maybe, _Maybe],
    x: _Array,
    dx: _Linear,
    scale: _Array,
    weight: _Array,
    _: _Linear,
) -> tuple[_Maybe, _Array]:
    ct, ct_sum = cts
    if ct is None:
        return ct_sum, jnp.zeros_like(weight)
    if not isinstance(dx, jax.ShapeDtypeStruct):  # a value: x is a constant
        return None, _reference.weight_backward(x, ct, scale)
    return rms_norm_weight_bwd_op(x, ct, scale, weight, ct_sum)


def _sums_of_rows(
    x: Typed, ct: Typed, scale: Typed, weight: Typed, ct_sum: Typed | None
) -> int:
    """Returns the bytes for the sums that the CUDA handler adds up to dweight.

    Each block that a GPU runs at a time needs one sum, with the weight's shape
    and the scale's type. The GPU is not known here; 8 MiB is what the threads
    of 256 processors have in registers. There are no more sums than one for
    each 64 rows, so that no thread adds up more than a few rows alone.
    """
    least = math.prod(weight.shape) * scale.dtype.itemsize
    groups = math.prod(weight.shape[:-1])
    rows = math.prod(scale.shape) // max_dim(groups, 1)
    blocks = min_dim(max_dim((8 << 20) // max_dim(least, 1), 1), 1024)
    slots = max_dim(min_dim(blocks, rows // 2 + 1), rows // 64)
    return least * slots


rms_norm_weight_bwd_op: FfiOp[tuple[_Array, _Array]] = FfiOp(
    f"{_NAME}_weight_bwd",
    _reference.backward_with_weight,
    libraries=KIT_LIBRARIES,
    linear=("ct", "ct_sum"),
    transpose=_transpose_weight_backward,
    advanced=Advanced(
        part_of=_NAME,
        shared_results="dweight",
        batches_shared=True,
        partitioned=_composed_backward,
        workspace={"cuda": _sums_of_rows},
    ),
)

rms_norm_weight_jvp_op: FfiOp[tuple[_Array, _Array]] = FfiOp(
    f"{_NAME}_weight_jvp",
    _reference.jvp,
    axes="(n),(n),(),(n),(n)->(n),(n)",
    handlers={"cpu": _composed_jvp, "cuda": _composed_jvp},
    libraries=KIT_LIBRARIES,
    shared=("weight", "dweight"),
    linear=("dx", "dweight"),
    transpose=_transpose_weight_jvp,
)

# --- Forward ------------------------------------------------------------------


def _composed_forward(
    x: _Array,
    weight: _Array,
    residual: _Maybe,
    *,
    eps: float,
    has_scale: bool = False,
) -> Result:
    """Computes the same with the handler that has no weight."""
    h = x if residual is None else x + residual
    sums = () if residual is None else (h,)
    if not has_scale:
        y = _reference.finish(rms_norm_op(h, eps=eps), h, weight)
        return (y, *sums) if sums else y
    y, scale = rms_norm_fwd_op(h, eps=eps)
    return _reference.finish(y, h, weight), *sums, scale


def _jvp(
    primals: tuple[_Array, _Maybe, _Maybe],
    tangents: tuple[_Array, _Array, _Array],
    *,
    eps: float,
    has_scale: bool = False,
) -> tuple[Result, Result]:
    (h, weight, residual), (dh, dweight, dresidual) = primals, tangents
    if weight is None and not has_scale:
        # The derivative depends only on x and recomputes the scale, one
        # multiplication for an element that is loaded anyway. If nobody wants
        # y, XLA then drops the forward: three times faster than with a stored
        # scale.
        return rms_norm_op(h, eps=eps), rms_norm_bwd_op(h, dh, eps=eps)
    *out, scale = rms_norm_fwd_op(*primals, eps=eps)
    if residual is not None:
        h, dh = out[1], _reference.rounded(dh + dresidual)
    if weight is None:
        dy = rms_norm_bwd_op(h, dh, scale)
    else:
        dy, dh = rms_norm_weight_jvp_op(h, dh, scale, weight, dweight)
    d_out = [dy] if residual is None else [dy, dh]
    if has_scale:
        out.append(scale)
        d_out.append(_reference.scale_jvp(h, dh, scale))
    if len(out) == 1:
        return out[0], d_out[0]
    return tuple(out), tuple(d_out)


def _forward(
    suffix: str, has_scale: bool = False, **options: Any
) -> FfiOp[Any]:
    """An operation with or without weight and residual.

    The handler tells these by their number: a residual comes with a weight.
    """
    return FfiOp(
        f"{_NAME}{suffix}",
        _reference.forward_with_scale if has_scale else _reference.forward,
        handlers={"cpu": _NAME, "cuda": _NAME},
        libraries=KIT_LIBRARIES,
        jvp=functools.partial(_jvp, has_scale=has_scale),
        advanced=Advanced(
            part_of=_NAME,
            batches_shared=True,
            partitioned=functools.partial(
                _composed_forward, has_scale=has_scale
            ),
        ),
        **options,
    )


rms_norm_op: FfiOp[Any] = _forward("")  # gives y, with a residual `(y, sum)`
# It gives the scale too, which the backward takes.
rms_norm_fwd_op: FfiOp[Any] = _forward("_fwd", has_scale=True)
# y in x's memory, the sum in the residual's.
rms_norm_in_place_op = _forward(
    "_in_place", aliases={"x": "y", "residual": "sum"}
)
