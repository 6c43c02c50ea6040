"""RMS normalization of x + residual, with a weight, in one pass each way.

See `rms_norm_weight`. The results are y and the sum, h.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.ffi_op import FfiOp
from xla_ffi_kit.ops import rms_norm_weight as _weight
from xla_ffi_kit.ops.rms_norm_plain import bwd_reference, widen

# --- What the operations mean -------------------------------------------------


def _rounded(x: jax.Array) -> jax.Array:
    """`x` as it is stored: XLA would keep a wider sum of 16-bit floats."""
    if jnp.iscomplexobj(x) or x.dtype.itemsize > 2:
        return x
    info = jnp.finfo(x.dtype)
    return jax.lax.reduce_precision(x, info.nexp, info.nmant)


def _fwd_reference(
    x: jax.Array, weight: jax.Array, residual: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    h = _rounded(x + residual)
    y, scale = _weight.fwd_reference(h, weight, eps=eps)
    return y, h, scale


def _reference(
    x: jax.Array, weight: jax.Array, residual: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    return _fwd_reference(x, weight, residual, eps=eps)[:2]


def _bwd_reference(
    scale: jax.Array,
    h: jax.Array,
    weight: jax.Array,
    ct: jax.Array,
    ct_h: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    dh = bwd_reference(scale, widen(h), widen(weight) * widen(ct))
    dh = (dh + widen(ct_h)).astype(h.dtype)
    return dh, _weight.weight_gradient(scale, h, ct)


def _tangent_reference(
    scale: jax.Array,
    h: jax.Array,
    weight: jax.Array,
    dh: jax.Array,
    dweight: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    return _weight.tangent_reference(scale, h, weight, dh, dweight), dh


# --- The same by the handlers that know no weight -----------------------------


def _composed(
    x: jax.Array, weight: jax.Array, residual: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    h = x + residual
    return _weight.composed(h, weight, eps=eps), h


def _composed_fwd(
    x: jax.Array, weight: jax.Array, residual: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array, jax.Array]:
    h = x + residual
    y, scale = _weight.composed_fwd(h, weight, eps=eps)
    return y, h, scale


def _composed_bwd(
    scale: jax.Array,
    h: jax.Array,
    weight: jax.Array,
    ct: jax.Array,
    ct_h: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    dh, dweight = _weight.composed_bwd(scale, h, weight, ct)
    return dh + ct_h, dweight


def _composed_tangent(
    scale: jax.Array,
    h: jax.Array,
    weight: jax.Array,
    dh: jax.Array,
    dweight: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    return _weight.composed_tangent(scale, h, weight, dh, dweight), dh


# --- Derivatives --------------------------------------------------------------


def _fwd_jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x, weight, residual), (dx, dweight, dresidual) = primals, tangents
    y, h, scale = rms_norm_weight_residual_fwd_op(x, weight, residual, eps=eps)
    dh = _rounded(dx + dresidual)
    dy, dh = rms_norm_weight_residual_tangent_op(scale, h, weight, dh, dweight)
    return (y, h, scale), (dy, dh, _weight.scale_tangent(scale, h, dh))


def _jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x, weight, residual), (dx, dweight, dresidual) = primals, tangents
    y, h, scale = rms_norm_weight_residual_fwd_op(x, weight, residual, eps=eps)
    return (y, h), rms_norm_weight_residual_tangent_op(
        scale, h, weight, dx + dresidual, dweight
    )


def _bwd_transpose(
    cts: Any, scale: jax.Array, h: jax.Array, weight: jax.Array, *_: Any
) -> tuple[jax.Array, jax.Array]:
    dh = jnp.zeros_like(h) if cts[0] is None else cts[0]
    return _weight.bwd_transpose(cts, scale, h, weight, None), dh


def _tangent_transpose(
    cts: Any,
    scale: jax.Array,
    h: jax.Array,
    weight: jax.Array,
    dh: Any,
    dweight: Any,
) -> tuple[jax.Array | None, jax.Array]:
    ct, ct_h = cts
    if ct is None:
        return ct_h, jnp.zeros_like(weight)
    if ct_h is None or not _weight.is_wanted(dh):
        return _weight.tangent_transpose(ct, scale, h, weight, dh, dweight)
    return rms_norm_weight_residual_bwd_op(scale, h, weight, ct, ct_h)


# --- The operations -----------------------------------------------------------

_make_forward = functools.partial(
    _weight.make_op,
    "_residual",
    _reference,
    _composed,
    kernel_axes=1,
    shared=(1,),
    attributes=_weight.EPS,
    jvp=_jvp,
)
rms_norm_weight_residual_op = _make_forward()
rms_norm_weight_residual_in_place_op = _make_forward(aliases={0: 0, 2: 1})


rms_norm_weight_residual_fwd_op = _weight.make_op(
    "_residual_fwd",
    _fwd_reference,
    _composed_fwd,
    kernel_axes=1,
    shared=(1,),
    attributes=_weight.EPS,
    jvp=_fwd_jvp,
)


rms_norm_weight_residual_bwd_op = _weight.make_op(
    "_residual_bwd",
    _bwd_reference,
    _composed_bwd,
    kernel_axes=(0, 1, 1, 1, 1),
    shared=(2,),
    shared_results=(1,),
    linear=(3, 4),
    transpose=_bwd_transpose,
)


rms_norm_weight_residual_tangent_op = FfiOp(
    "xla_ffi_kit.rms_norm_weight_residual_tangent",
    _tangent_reference,
    kernel_axes=(0, 1, 1, 1, 1),
    handlers={
        "cpu": _composed_tangent,
        "cuda": _composed_tangent,
    },
    libraries=KIT_LIBRARIES,
    shared=(2, 4),
    linear=(3, 4),
    transpose=_tangent_transpose,
)
