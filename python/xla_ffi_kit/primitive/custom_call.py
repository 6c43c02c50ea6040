"""The custom call that an operation is lowered to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.primitive import sharding
from xla_ffi_kit.primitive.device_kernel import Attributes
from xla_ffi_kit.primitive.spec import OpSpec


@dataclasses.dataclass(frozen=True)
class HandlerCall:
    """What a handler gets besides operands.

    Attributes:
      target: the custom call target.
      attributes: the attributes, from the operands' types.
      workspace: the bytes of the workspace, from these types too; None if the
        handler takes none.
    """

    target: str
    attributes: Attributes
    workspace: Callable[..., int] | None


def build(
    spec: OpSpec,
    ctx: LoweringRuleContext,
    operands: Sequence[ir.Value],
    handler: HandlerCall,
    batch: Shape,
) -> Sequence[ir.Value]:
    """Calls a handler in the program that a rule lowers.

    Args:
      spec: the operation.
      ctx: the context of the rule.
      operands: the operands' values.
      handler: the handler.
      batch: the first axes of operands and results that XLA may split over
        devices.
    """
    avals = _jax_hooks.shaped(ctx.avals_in)
    units = _unit_axes(spec, avals, batch) if batch else (0, 0)
    results = _jax_hooks.shaped(ctx.avals_out)
    if any(units):
        avals = [
            a if i in spec.shared else _with_axes(a, len(batch), sum(units))
            for i, a in enumerate(avals)
        ]
        operands = [
            _reshape(x, a.shape) for x, a in zip(operands, avals, strict=True)
        ]
        ctx = ctx.replace(
            avals_in=avals,
            avals_out=[
                _with_axes(a, len(batch), _units_of(a, batch, units))
                for a in results
            ],
        )
    if handler.workspace is not None:
        hidden = ShapedArray((handler.workspace(*avals),), np.dtype(np.uint8))
        ctx = ctx.replace(avals_out=[*ctx.avals_out, hidden])
    lower = jax.ffi.build_ffi_lowering_function(
        handler.target,
        has_side_effect=spec.has_side_effect,
        operand_output_aliases=spec.input_output_aliases or None,
        operand_layouts=_layouts(spec.input_layouts, ctx.avals_in),
        result_layouts=_layouts(spec.output_layouts, ctx.avals_out),
    )
    call = lower(ctx, *operands, **handler.attributes(avals))
    if batch:
        sharding.annotate_batch(
            call,
            (*batch, *(1,) * units[0]),
            [a.shape for a in avals],
            [a.shape for a in _jax_hooks.shaped(ctx.avals_out)],
            spec.shared,
        )
    values: Sequence[ir.Value] = list(call.results)[: len(results)]
    if not any(units):
        return values
    return [_reshape(x, a.shape) for x, a in zip(values, results, strict=True)]


def _layouts(
    orders: Sequence[tuple[int, ...] | None], avals: Sequence[object]
) -> list[Shape | None] | None:
    """Extends orders of kernel axes to all axes, minor to major."""
    if not orders:
        return None
    layouts: list[Shape | None] = [None] * len(avals)
    for i, (order, aval) in enumerate(
        zip(orders, _jax_hooks.shaped(avals), strict=False)
    ):
        if order is not None:
            batch = len(aval.shape) - len(order)
            own = (batch + axis for axis in reversed(order))
            layouts[i] = (*own, *reversed(range(batch)))
    return layouts


def _unit_axes(
    spec: OpSpec, avals: Sequence[Typed], batch: Shape
) -> tuple[int, int]:
    """Returns the numbers of batch and kernel axes of size one to add.

    XLA partitions a custom call over its batch axes only if some operand has
    another axis (verified on jaxlib 0.10.2, which otherwise gathers the
    operands of an elementwise call). A kernel without kernel axes therefore
    gets one. XLA also takes the first axes of every operand for batch axes,
    except for operands with fewer axes than there are batch axes (verified on
    all four releases). There must therefore be more batch axes than a shared
    operand has axes. On one device no axes are added, because XLA may give a
    reshaped array another layout and then copies it (verified on bf16 and
    donated operands).
    """
    if not _check.is_static(*(a.shape for a in avals)):
        return 0, 0
    rank = max((len(avals[i].shape) + 1 for i in spec.shared), default=0)
    others = [
        len(a.shape) > len(batch)
        for i, a in enumerate(avals)
        if i not in spec.shared
    ]
    return max(rank - len(batch), 0), int(not any(others))


def _units_of(result: Typed, batch: Shape, units: tuple[int, int]) -> int:
    own = units[1] if len(result.shape) == len(batch) else 0
    return units[0] + own


def _with_axes(aval: ShapedArray, at: int, count: int) -> ShapedArray:
    shape = (*aval.shape[:at], *(1,) * count, *aval.shape[at:])
    return ShapedArray(shape, aval.dtype)


def _reshape(value: ir.Value, shape: Shape) -> ir.Value:
    element = value.type.element_type
    return _jax_hooks.hlo.reshape(
        ir.RankedTensorType.get(list(shape), element), value
    )
