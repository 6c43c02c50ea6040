"""Operands and results that rows share: they have no batch axes.

A shared operand serves every row of a call, as a layer's weight does; a shared
result is a sum over the rows, as that weight's gradient is. vmap gives either
one batch axes after all: always the first ones of the call, so that a row's
shared operand is found by its first indices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad

if TYPE_CHECKING:
    from xla_ffi_kit.op.ffi_op import FfiOp


def own_axes(op: FfiOp, index: int, operand: Any) -> int:
    """How many batch axes a shared operand has."""
    return len(operand.shape) - op.kernel_axes[index]


def depth(op: FfiOp, operands: Sequence[Any]) -> int:
    """How many of the first batch axes some shared operand has."""
    return max((own_axes(op, i, operands[i]) for i in op.shared), default=0)


def evaluate(op: FfiOp, attributes: Any, *operands: Any) -> tuple[Any, ...]:
    """The reference's results; it never sees a shared operand's batch axes."""
    return in_jax(op, op.reference, attributes, *operands)


def in_jax(
    op: FfiOp, function: Callable[..., Any], attributes: Any, *operands: Any
) -> tuple[Any, ...]:
    """What `function`, of the reference's signature, returns; a tuple."""

    def call(*values: Any) -> tuple[Any, ...]:
        return op.flatten(function(*values, **attributes.for_reference))

    return over_batches(op, call, operands)(*operands)


def over_batches(
    op: FfiOp, function: Callable[..., Any], operands: Sequence[Any]
) -> Callable[..., Any]:
    """`function`, vmapped over the batch axes that shared operands have."""
    for level in reversed(range(depth(op, operands))):
        function = jax.vmap(function, _in_axes(op, operands, level))
    return function


def _in_axes(op: FfiOp, operands: Sequence[Any], level: int) -> tuple[Any, ...]:
    return tuple(
        None if i in op.shared and own_axes(op, i, x) <= level else 0
        for i, x in enumerate(operands)
    )


def jvp(
    op: FfiOp, primals: Sequence[Any], tangents: Sequence[Any], attributes: Any
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The author's rule: results and their tangents."""
    rule = op.jvp
    assert rule is not None

    def call(primals: Any, tangents: Any) -> Any:
        outs, out_tangents = rule(primals, tangents, **attributes.for_reference)
        return op.flatten(outs), op.flatten(out_tangents)

    for level in reversed(range(depth(op, primals))):
        axes = _in_axes(op, primals, level)
        call = jax.vmap(call, (axes, axes))
    return call(tuple(primals), tuple(tangents))


def transpose(
    op: FfiOp,
    cotangents: Sequence[Any],
    operands: Sequence[Any],
    attributes: Any,
) -> list[Any]:
    """The author's rule: cotangents of the linear operands, or None."""
    rule = op.transpose
    assert rule is not None
    levels = depth(
        op, [x.aval if ad.is_undefined_primal(x) else x for x in operands]
    )

    def call(cotangents: Any, known: Any) -> Any:
        full = [
            _without_axes(x.aval, op, i, levels)
            if ad.is_undefined_primal(x)
            else known[i]
            for i, x in enumerate(operands)
        ]
        results = cotangents if len(cotangents) > 1 else cotangents[0]
        out = rule(results, *full, **attributes.for_reference)
        return tuple(out) if isinstance(out, tuple | list) else (out,)

    known = {
        i: x for i, x in enumerate(operands) if not ad.is_undefined_primal(x)
    }
    for level in reversed(range(levels)):
        axes = {
            i: None if i in op.shared and own_axes(op, i, x) <= level else 0
            for i, x in known.items()
        }
        call = jax.vmap(call, (0, axes))
    out = call(tuple(cotangents), known)
    return [
        _sum_to(op, i, x, operands[i], levels)
        for i, x in zip(op.linear, out, strict=True)
    ]


def _without_axes(aval: Any, op: FfiOp, index: int, levels: int) -> Any:
    own = own_axes(op, index, aval) if index in op.shared else levels
    shape = aval.shape[min(own, levels) :]
    return jax.ShapeDtypeStruct(shape, aval.dtype)


def _sum_to(op: FfiOp, index: int, x: Any, operand: Any, levels: int) -> Any:
    """Sums over the batch axes that a shared operand lacks."""
    if x is None or index not in op.shared:
        return x
    aval = operand.aval if ad.is_undefined_primal(operand) else operand
    return jnp.sum(x, tuple(range(own_axes(op, index, aval), levels)))
