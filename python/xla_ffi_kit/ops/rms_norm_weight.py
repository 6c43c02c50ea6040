"""RMS normalization with a weight, in one pass each way.

The tangent operation is there to be transposed: reverse mode then is the
backward handler, which gives the gradients of x and weight together.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.ffi_op import FfiOp
from xla_ffi_kit.ops import rms_norm_plain as _plain
from xla_ffi_kit.ops.rms_norm_plain import widen

_NAME = "xla_ffi_kit.rms_norm_weight"


def _weighted(weight: jax.Array, x: jax.Array) -> jax.Array:
    """weight x, rounded once."""
    return (widen(weight) * widen(x)).astype(x.dtype)


def weight_gradient(scale: jax.Array, x: jax.Array, ct: jax.Array) -> jax.Array:
    """The cotangent of the weight, from that of y."""
    terms = widen(x) * scale[..., None] * widen(ct)
    return jnp.sum(terms, tuple(range(x.ndim - 1))).astype(x.dtype)


# --- What the operations mean -------------------------------------------------


def fwd_reference(
    x: jax.Array, weight: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    """y = x weight scale, and the scale of each row."""
    wide = widen(x)
    y, scale = _plain.fwd_reference(wide, eps=eps)
    return (y * widen(weight)).astype(x.dtype), scale


def _reference(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    return fwd_reference(x, weight, eps=eps)[0]


def _bwd_reference(
    scale: jax.Array, x: jax.Array, weight: jax.Array, ct: jax.Array
) -> tuple[jax.Array, jax.Array]:
    dx = _plain.bwd_reference(scale, widen(x), widen(weight) * widen(ct))
    return dx.astype(x.dtype), weight_gradient(scale, x, ct)


def tangent_reference(
    scale: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    dx: jax.Array,
    dweight: jax.Array,
) -> jax.Array:
    """The tangent of y, from those of x and weight."""
    wide, dx, scale = widen(x), widen(dx), scale[..., None]
    mean = jnp.mean(jnp.real(jnp.conj(wide) * dx), axis=-1, keepdims=True)
    dy = scale * dx - wide * (scale * scale * scale * mean)
    dy = widen(weight) * dy + wide * scale * widen(dweight)
    return dy.astype(x.dtype)


# --- The same by the handlers that know no weight -----------------------------


def composed(x: jax.Array, weight: jax.Array, *, eps: float) -> jax.Array:
    """y, by the handler without a weight."""
    return _weighted(weight, _plain.rms_norm_op(x, eps=eps))


def composed_fwd(
    x: jax.Array, weight: jax.Array, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    """y and scale, by the handler without a weight."""
    y, scale = _plain.rms_norm_fwd_op(x, eps=eps)
    return _weighted(weight, y), scale


def composed_bwd(
    scale: jax.Array, x: jax.Array, weight: jax.Array, ct: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The cotangents, dx by the handler without a weight."""
    dx = _plain.rms_norm_bwd_op(scale, x, _weighted(weight, ct))
    return dx, weight_gradient(scale, x, ct)


def composed_tangent(
    scale: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    dx: jax.Array,
    dweight: jax.Array,
) -> jax.Array:
    """The tangent of y, by the handler without a weight."""
    dy = widen(_plain.push_forward_by_bwd(scale, x, dx)) * widen(weight)
    dy = dy + widen(x) * scale[..., None] * widen(dweight)
    return dy.astype(x.dtype)


# --- Derivatives --------------------------------------------------------------


def scale_tangent(scale: jax.Array, x: jax.Array, dx: jax.Array) -> jax.Array:
    """The tangent of the scale, from that of x."""
    power = jnp.mean(jnp.real(jnp.conj(widen(x)) * widen(dx)), axis=-1)
    return -(scale * scale * scale) * power


def _fwd_jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x, weight), (dx, dweight) = primals, tangents
    y, scale = rms_norm_weight_fwd_op(x, weight, eps=eps)
    dy = rms_norm_weight_tangent_op(scale, x, weight, dx, dweight)
    return (y, scale), (dy, scale_tangent(scale, x, dx))


def _jvp(primals: Any, tangents: Any, *, eps: float) -> Any:
    (x, weight), (dx, dweight) = primals, tangents
    y, scale = rms_norm_weight_fwd_op(x, weight, eps=eps)
    return y, rms_norm_weight_tangent_op(scale, x, weight, dx, dweight)


def bwd_transpose(
    cts: Any, scale: jax.Array, x: jax.Array, weight: jax.Array, _: Any
) -> jax.Array:
    """The transpose of the backward operation: the tangent one."""
    dx, dweight = cts
    dx = jnp.zeros_like(x) if dx is None else dx
    dweight = jnp.zeros_like(weight) if dweight is None else dweight
    return rms_norm_weight_tangent_op(scale, x, weight, dx, dweight)


def is_wanted(operand: Any) -> bool:
    """Whether a linear operand's cotangent is wanted: it has no value then."""
    return isinstance(operand, jax.ShapeDtypeStruct)


def tangent_transpose(
    ct: jax.Array,
    scale: jax.Array,
    x: jax.Array,
    weight: jax.Array,
    dx: Any,
    _: Any,
) -> tuple[jax.Array | None, jax.Array]:
    """The transpose of the tangent operation: the backward one."""
    if is_wanted(dx):
        return rms_norm_weight_bwd_op(scale, x, weight, ct)
    return None, weight_gradient(scale, x, ct)


# --- The operations -----------------------------------------------------------


def make_op(suffix: str, reference: Any, composed: Any, **spec: Any) -> FfiOp:
    """An operation with a handler on each platform; in place with `aliases`."""
    handler = _NAME + suffix
    return FfiOp(
        f"{handler}_in_place" if "aliases" in spec else handler,
        reference,
        handlers={"cpu": handler, "cuda": handler},
        libraries=KIT_LIBRARIES,
        batches_shared=True,
        partitioned=composed,
        **spec,
    )


EPS = {"eps": np.float64}


_make_forward = functools.partial(
    make_op,
    "",
    _reference,
    composed,
    kernel_axes=1,
    shared=(1,),
    attributes=EPS,
    jvp=_jvp,
)
rms_norm_weight_op = _make_forward()
rms_norm_weight_in_place_op = _make_forward(aliases={0: 0})


rms_norm_weight_fwd_op = make_op(
    "_fwd",
    fwd_reference,
    composed_fwd,
    kernel_axes=1,
    shared=(1,),
    attributes=EPS,
    jvp=_fwd_jvp,
)


rms_norm_weight_bwd_op = make_op(
    "_bwd",
    _bwd_reference,
    composed_bwd,
    kernel_axes=(0, 1, 1, 1),
    shared=(2,),
    shared_results=(1,),
    linear=(3,),
    transpose=bwd_transpose,
)


rms_norm_weight_tangent_op = FfiOp(
    _NAME + "_tangent",
    tangent_reference,
    kernel_axes=(0, 1, 1, 1, 1),
    handlers={"cpu": composed_tangent, "cuda": composed_tangent},
    libraries=KIT_LIBRARIES,
    shared=(2, 4),
    linear=(3, 4),
    transpose=tangent_transpose,
)
