"""The custom call that an operation is lowered to."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.op import attribute_values, batch_axes
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import (
    Arrays,
    DeviceKernel,
    KernelAttributes,
    OpSpec,
)
from xla_ffi_kit.rules import partitioning

# What a lowering rule returns: the values of the results.
Lowered: TypeAlias = Sequence[ir.Value | Sequence[ir.Value]]


@dataclasses.dataclass(frozen=True)
class HandlerCall:
    """A call that the rule of a platform with a handler lowers."""

    spec: OpSpec
    platform: str
    ctx: LoweringRuleContext
    operands: Sequence[ir.Value]
    attributes: AttributeValues

    @functools.cached_property
    def avals(self) -> Sequence[ShapedArray]:
        """The types of the operands."""
        return _jax_hooks.shaped(self.ctx.avals_in)

    @functools.cached_property
    def results(self) -> Sequence[ShapedArray]:
        """The types of the results."""
        return _jax_hooks.shaped(self.ctx.avals_out)

    @functools.cached_property
    def lead(self) -> Shape:
        """The leading shape that operands and results have."""
        return batch_axes.leading_shape(self.spec, self.avals)

    @functools.cached_property
    def depth(self) -> int:
        """How many of these axes only `vmap` or a loop goes over."""
        return self.spec.depth(self.avals)

    @functools.cached_property
    def devices(self) -> int:
        """Over how many devices XLA may split the call."""
        return _jax_hooks.partition_count(self.ctx)

    @functools.cached_property
    def needs_shapes(self) -> bool:
        """Whether attributes depend on the shapes that a device has."""
        return attribute_values.depend_on_rows(
            self.spec, self.avals, self.attributes
        ) or any(
            isinstance(handler, DeviceKernel) and handler.needs_shapes
            for handler in self.spec.handlers.values()
        )

    @functools.cached_property
    def rows(self) -> HandlerCall:
        """The call for one element of the axes that `depth` counts."""
        operands = batch_axes.row_types(self.spec, self.avals)
        results = [
            ShapedArray(x.shape[self.depth :], x.dtype) for x in self.results
        ]
        ctx = self.ctx.replace(
            avals_in=[ShapedArray(x.shape, x.dtype) for x in operands],
            avals_out=results,
        )
        return dataclasses.replace(self, ctx=ctx)

    @functools.cached_property
    def with_one_batch_axis(self) -> HandlerCall:
        """The call with one batch axis, if the handler takes exactly one.

        Otherwise the call itself.
        """
        if not self.spec.advanced.one_batch_axis or len(self.lead) == 1:
            return self
        rank, rows = len(self.lead), math.prod(self.lead)

        def flat(a: ShapedArray) -> ShapedArray:
            return ShapedArray((rows, *a.shape[rank:]), a.dtype)

        def flatten(
            avals: Sequence[ShapedArray], shared: Collection[int]
        ) -> list[ShapedArray]:
            return [a if i in shared else flat(a) for i, a in enumerate(avals)]

        spec = self.spec
        ctx = self.ctx.replace(
            avals_in=flatten(self.avals, spec.shared),
            avals_out=flatten(self.results, spec.shared_results),
        )
        return dataclasses.replace(self, ctx=ctx)

    @property
    def run(self) -> Callable[..., Arrays]:
        """The operation, for the part of each operand that a device has.

        It outlives the program that is lowered, and holds nothing of it.
        """
        return functools.partial(run, self.spec, self.attributes)


def run(spec: OpSpec, attributes: AttributeValues, *parts: jax.Array) -> Arrays:
    """The operation for what one device has."""
    return tuple(spec.primitive.bind(*parts, attributes=attributes))


def build(
    call: HandlerCall, target: str, attributes: KernelAttributes
) -> Sequence[ir.Value]:
    """Calls the handler `target`, with attributes from the operands' types."""
    flat = call.with_one_batch_axis
    if flat is not call:
        operands = _reshaped(call, call.operands, call.avals, flat.avals)
        flat = dataclasses.replace(flat, operands=operands)
        results = build(flat, target, attributes)
        return _reshaped(call, results, flat.results, call.results)
    spec, ctx, avals, operands = call.spec, call.ctx, call.avals, call.operands
    # XLA may split these axes, the first ones of operands and results.
    batch = partitioning.divided(ctx, call.lead) if call.devices > 1 else ()
    units = unit_axes(spec, avals, batch) if batch else (0, 0)
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
                for a in call.results
            ],
        )
    workspace = spec.advanced.workspace.get(call.platform)
    if workspace is not None:
        size = workspace(*spec.fill(avals), **call.attributes.for_reference)
        hidden = ShapedArray((size,), np.dtype(np.uint8))
        ctx = ctx.replace(avals_out=[*ctx.avals_out, hidden])
    lower = jax.ffi.build_ffi_lowering_function(
        target,
        has_side_effect=spec.advanced.has_side_effect,
        operand_output_aliases=spec.input_output_aliases or None,
        operand_layouts=_layouts(spec.input_layouts, ctx.avals_in),
        result_layouts=_layouts(spec.output_layouts, ctx.avals_out),
    )
    custom_call = lower(ctx, *operands, **attributes(avals))
    if batch:
        partitioning.annotate_batch(
            custom_call,
            (*batch, *(1,) * units[0]),
            [a.shape for a in avals],
            [a.shape for a in _jax_hooks.shaped(ctx.avals_out)],
            spec.shared,
            partitioning.restored_axes(spec, len(ctx.avals_out)),
        )
    values: Sequence[ir.Value] = list(custom_call.results)[: len(call.results)]
    if any(units):
        pairs = zip(values, call.results, strict=True)
        values = [_reshape(x, a.shape) for x, a in pairs]
    return values


def _reshaped(
    call: HandlerCall,
    values: Sequence[ir.Value],
    avals: Sequence[ShapedArray],
    others: Sequence[ShapedArray],
) -> Sequence[ir.Value]:
    """The values with other shapes, of which axes may be symbolic."""

    def reshape(*xs: jax.Array) -> Arrays:
        pairs = zip(xs, others, strict=True)
        return tuple(jnp.reshape(x, a.shape) for x, a in pairs)

    lower = mlir.lower_fun(reshape, multiple_results=True)
    ctx = call.ctx.replace(avals_in=avals, avals_out=others)
    reshaped: Sequence[ir.Value] = lower(ctx, *values)
    return reshaped


def _layouts(
    orders: Mapping[int, Sequence[int]], avals: Sequence[object]
) -> list[Shape | None] | None:
    """Extends orders of kernel axes to all axes, minor to major."""
    if not orders:
        return None
    layouts: list[Shape | None] = [None] * len(avals)
    for i, order in orders.items():
        batch = len(_jax_hooks.shaped(avals)[i].shape) - len(order)
        kernel = (batch + axis for axis in reversed(order))
        layouts[i] = (*kernel, *reversed(range(batch)))
    return layouts


def unit_axes(
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
    return units[0] + (units[1] if len(result.shape) == len(batch) else 0)


def _with_axes(aval: ShapedArray, at: int, count: int) -> ShapedArray:
    shape = (*aval.shape[:at], *(1,) * count, *aval.shape[at:])
    return ShapedArray(shape, aval.dtype)


def _reshape(value: ir.Value, shape: Shape) -> ir.Value:
    element = value.type.element_type
    return _jax_hooks.hlo.reshape(
        ir.RankedTensorType.get(list(shape), element), value
    )
