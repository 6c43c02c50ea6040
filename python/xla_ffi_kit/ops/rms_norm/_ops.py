"""RMS normalization as operations, one for each set of operands and results.

Three handlers serve all of them; the operations differ in the operands that
they pass.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import max_dim, min_dim

from xla_ffi_kit._check import Typed
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.ops.rms_norm import _reference
from xla_ffi_kit.primitive.ffi_op import FfiOp
from xla_ffi_kit.primitive.spec import (
    AttributeType,
    Function,
    Result,
    Transpose,
    Workspace,
)

_NAME = "xla_ffi_kit.rms_norm"
_EPS = {"eps": np.float64}

# The names of operands or of results.
_Names = tuple[str, ...]
_Attributes = Mapping[str, AttributeType]
# A function that returns its results by name.
_Named = Callable[..., Mapping[str, jax.Array]]
# Primals or tangents, of as many operands.
_Arrays = tuple[jax.Array, ...]
# The values for x and weight.
_Gradients = tuple[jax.Array, jax.Array]
_Cotangents = tuple[jax.Array | None, jax.Array | None]
# An operand that a transposition gives a value, or only a type.
_Linear = jax.Array | jax.ShapeDtypeStruct


def _with_signature(
    function: _Named,
    operands: _Names,
    results: _Names,
    attributes: _Attributes,
) -> Function:
    """Returns `function`, with results by name, for only these operands."""

    def call(*values: jax.Array, **given: object) -> Result:
        by_name = function(**dict(zip(operands, values, strict=True)), **given)
        if len(results) == 1:
            return by_name[results[0]]
        return tuple(by_name[result] for result in results)

    kind = inspect.Parameter
    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [kind(name, kind.POSITIONAL_ONLY) for name in operands]
        + [kind(name, kind.KEYWORD_ONLY) for name in attributes]
    )
    return call


def _make_op(
    name: str,
    handler: str,
    reference: _Named,
    operands: _Names,
    results: _Names,
    attributes: _Attributes,
    composed: _Named | None = None,
    *,
    jvp: Callable[..., tuple[Result, Result]] | None = None,
    transpose: Transpose | None = None,
    aliases: Mapping[int, int] | None = None,
    workspace: Mapping[str, Workspace] | None = None,
) -> FfiOp[Any]:
    """An operation whose spec follows from the names of what it has."""

    def named(function: _Named) -> Function:
        return _with_signature(function, operands, results, attributes)

    def places(of: _Names, *names: str) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(of) if name in names)

    return FfiOp(
        name,
        named(reference),
        kernel_axes=tuple(int(name != "scale") for name in operands),
        handlers={"cpu": handler, "cuda": handler},
        libraries=KIT_LIBRARIES,
        part_of=(_NAME,),
        attributes=attributes,
        linear=places(operands, "ct", "ct_sum"),
        shared=places(operands, "weight"),
        shared_results=places(results, "dweight"),
        batches_shared="weight" in operands,
        partitioned=named(composed) if composed else None,
        jvp=jvp,
        transpose=transpose,
        input_output_aliases=aliases,
        workspace=workspace,
    )


# --- Without a weight ---------------------------------------------------------


def _times_jacobian(
    x: jax.Array, tangent: jax.Array, *scale: jax.Array, **eps: float
) -> jax.Array:
    """The Jacobian times a tangent, given the scale or eps.

    The real Jacobian is symmetric, so a backward handler serves both
    directions; JAX's cotangents of complex numbers are conjugated.
    """
    backward: Callable[..., jax.Array] = (
        rms_norm_bwd_op if scale else rms_norm_recompute_bwd_op
    )
    if jnp.iscomplexobj(tangent):
        return jnp.conj(backward(x, jnp.conj(tangent), *scale, **eps))
    return backward(x, tangent, *scale, **eps)


_make_bwd = functools.partial(
    _make_op,
    handler=f"{_NAME}_bwd",
    reference=_reference.backward,
    results=("dx",),
    transpose=lambda ct, x, _, *scale, **eps: _times_jacobian(
        x, ct, *scale, **eps
    ),
)
rms_norm_bwd_op: FfiOp[jax.Array] = _make_bwd(
    f"{_NAME}_bwd", operands=("x", "ct", "scale"), attributes={}
)
rms_norm_recompute_bwd_op: FfiOp[jax.Array] = _make_bwd(
    f"{_NAME}_recompute_bwd", operands=("x", "ct"), attributes=_EPS
)


# The derivative depends only on x and recomputes the scale, one multiplication
# for an element that is loaded anyway. If nobody wants y, XLA then drops the
# forward: three times faster than with a stored scale.
def _recompute_jvp(
    primals: _Arrays, tangents: _Arrays, *, eps: float
) -> tuple[jax.Array, jax.Array]:
    (x,), (dx,) = primals, tangents
    return rms_norm_op(x, eps=eps), _times_jacobian(x, dx, eps=eps)


# --- With a weight ------------------------------------------------------------
# The jvp operation is there to be transposed: reverse mode then is the backward
# handler, which gives the gradients of x and weight together.


def _weighted(weight: jax.Array, x: jax.Array) -> jax.Array:
    return _reference.finish(x, x, weight)


def _composed_backward(
    x: jax.Array,
    ct: jax.Array,
    scale: jax.Array,
    weight: jax.Array,
    ct_sum: jax.Array | None = None,
) -> dict[str, jax.Array]:
    """Computes the same with the handler that has no weight."""
    dx = rms_norm_bwd_op(x, _weighted(weight, ct), scale)
    dweight = _reference.weight_backward(x, ct, scale)
    return {"dx": dx if ct_sum is None else dx + ct_sum, "dweight": dweight}


def _composed_jvp(
    x: jax.Array,
    dx: jax.Array,
    scale: jax.Array,
    weight: jax.Array,
    dweight: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Computes the same with the handler that has no weight."""
    widen = _reference.widen
    dy = widen(_times_jacobian(x, dx, scale)) * widen(weight)
    dy = dy + widen(x) * scale[..., None] * widen(dweight)
    return dy.astype(x.dtype), dx


def _transpose_weight_backward(
    cts: _Cotangents,
    x: jax.Array,
    _: _Linear,
    scale: jax.Array,
    weight: jax.Array,
    *ct_sum: _Linear,
) -> Result:
    dx, dweight = cts
    dx = jnp.zeros_like(x) if dx is None else dx
    dweight = jnp.zeros_like(weight) if dweight is None else dweight
    dy, dx = rms_norm_weight_jvp_op(x, dx, scale, weight, dweight)
    return (dy, dx) if ct_sum else dy


def _transpose_weight_jvp(
    cts: _Cotangents,
    x: jax.Array,
    dx: _Linear,
    scale: jax.Array,
    weight: jax.Array,
    _: _Linear,
) -> tuple[jax.Array | None, jax.Array]:
    ct, ct_sum = cts
    if ct is None:
        return ct_sum, jnp.zeros_like(weight)
    if not isinstance(dx, jax.ShapeDtypeStruct):  # a value: x is a constant
        return None, _reference.weight_backward(x, ct, scale)
    if ct_sum is None:
        return rms_norm_weight_bwd_op(x, ct, scale, weight)
    return rms_norm_weight_residual_bwd_op(x, ct, scale, weight, ct_sum)


def _sums_of_rows(
    x: Typed, _ct: Typed, scale: Typed, weight: Typed, *_: Typed
) -> int:
    """Returns the bytes for the sums that the CUDA handler adds up to dweight.

    Each block that a GPU runs at a time needs one sum, with the weight's shape
    and the scale's type. The GPU is not known here; 8 MiB is what the threads
    of 256 processors have in registers. There are no more sums than one for
    each 64 rows, so that no thread adds up more than a few rows alone.
    """
    components = 2 if jnp.issubdtype(x.dtype, jnp.complexfloating) else 1
    least = math.prod(weight.shape) * components * scale.dtype.itemsize
    groups = math.prod(weight.shape[:-1])
    rows = math.prod(scale.shape) // max_dim(groups, 1)
    blocks = min_dim(max_dim((8 << 20) // max_dim(least, 1), 1), 1024)
    slots = max_dim(min_dim(blocks, rows // 2 + 1), rows // 64)
    return least * slots


_make_weight_bwd = functools.partial(
    _make_op,
    handler=f"{_NAME}_weight_bwd",
    reference=_reference.backward,
    results=("dx", "dweight"),
    attributes={},
    composed=_composed_backward,
    transpose=_transpose_weight_backward,
    workspace={"cuda": _sums_of_rows},
)
rms_norm_weight_bwd_op: FfiOp[_Gradients] = _make_weight_bwd(
    f"{_NAME}_weight_bwd", operands=("x", "ct", "scale", "weight")
)
rms_norm_weight_residual_bwd_op: FfiOp[_Gradients] = _make_weight_bwd(
    f"{_NAME}_weight_residual_bwd",
    operands=("x", "ct", "scale", "weight", "ct_sum"),
)

rms_norm_weight_jvp_op = FfiOp(
    f"{_NAME}_weight_jvp",
    _reference.jvp,
    kernel_axes=(1, 1, 0, 1, 1),
    handlers={"cpu": _composed_jvp, "cuda": _composed_jvp},
    libraries=KIT_LIBRARIES,
    shared=(3, 4),
    linear=(1, 4),
    transpose=_transpose_weight_jvp,
)


# --- Forward ------------------------------------------------------------------


def _composed_forward(
    x: jax.Array,
    weight: jax.Array,
    residual: jax.Array | None = None,
    *,
    eps: float,
    has_scale: bool,
) -> dict[str, jax.Array]:
    """Computes the same with the handler that has no weight."""
    h = x if residual is None else x + residual
    results = {"sum": h}
    if has_scale:
        y, results["scale"] = rms_norm_fwd_op(h, eps=eps)
    else:
        y = rms_norm_op(h, eps=eps)
    return results | {"y": _reference.finish(y, h, weight)}


@dataclasses.dataclass(frozen=True)
class Forward:
    """The operations of the forward for one set of operands."""

    op: FfiOp[Any]  # gives y, with a residual `(y, sum)`
    fwd_op: FfiOp[Any]  # gives also the scale, which the backward takes
    in_place_op: FfiOp[Any]  # y in x's memory, the sum in the residual's


def _make_forward(
    suffix: str, operands: _Names, attributes: _Attributes
) -> Forward:
    has_residual, has_weight = "residual" in operands, "weight" in operands
    results = ("y", "sum") if has_residual else ("y",)

    def jvp(
        primals: _Arrays, tangents: _Arrays, *, has_scale: bool, **given: Any
    ) -> tuple[Result, Result]:
        value = dict(zip(operands, primals, strict=True))
        tangent = dict(zip(operands, tangents, strict=True))
        *out, scale = made.fwd_op(*primals, **given)
        h, dh = value["x"], tangent["x"]
        if has_residual:
            h, dh = out[1], _reference.rounded(dh + tangent["residual"])
        if has_weight:
            dy, dh = rms_norm_weight_jvp_op(
                h, dh, scale, value["weight"], tangent["weight"]
            )
        else:
            dy = _times_jacobian(h, dh, scale)
        d_out = [dy, dh] if has_residual else [dy]
        if has_scale:
            out.append(scale)
            d_out.append(_reference.scale_jvp(h, dh, scale))
        if len(out) == 1:
            return out[0], d_out[0]
        return tuple(out), tuple(d_out)

    def make(
        kind: str,
        has_scale: bool = False,
        aliases: Mapping[int, int] | None = None,
    ) -> FfiOp[Any]:
        composed = functools.partial(_composed_forward, has_scale=has_scale)
        recomputes = not has_weight and not has_scale
        return _make_op(
            _NAME + suffix + kind,
            _NAME,
            _reference.forward,
            operands,
            (*results, "scale") if has_scale else results,
            attributes,
            composed if has_weight else None,
            jvp=_recompute_jvp
            if recomputes
            else functools.partial(jvp, has_scale=has_scale),
            aliases=aliases,
        )

    made = Forward(
        op=make(""),
        fwd_op=make("_fwd", has_scale=True),
        in_place_op=make(
            "_in_place", aliases={0: 0, 2: 1} if has_residual else {0: 0}
        ),
    )
    return made


PLAIN = _make_forward("", ("x",), _EPS)
WEIGHT = _make_forward("_weight", ("x", "weight"), _EPS)
RESIDUAL = _make_forward("_weight_residual", ("x", "weight", "residual"), _EPS)

rms_norm_op, rms_norm_fwd_op = PLAIN.op, PLAIN.fwd_op
