"""Lowers an operation to its handler, or to its reference without one."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit._jax_hooks import Primitive
from xla_ffi_kit.library import (
    handler_library,
    known_faults,
    registration,
)
from xla_ffi_kit.library.handler_library import HandlerLibraryError
from xla_ffi_kit.primitive import (
    attribute_values,
    fallback,
    operand_checks,
    sharding,
    shared_operands,
)
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.device_kernel import (
    DeviceKernel,
    Request,
    target_of,
)
from xla_ffi_kit.primitive.reference_switch import runs_reference
from xla_ffi_kit.primitive.spec import Arrays, Function, OpSpec


def install(spec: OpSpec, primitive: Primitive) -> None:
    """Registers the lowerings of the primitive, one per platform."""
    if _needs_shapes(spec):
        _jax_hooks.lowers_with_devices(primitive)
    default = (
        functools.partial(_refuse, spec)
        if spec.reference is None
        else fallback.lowers_reference(spec, _in_jax(spec, spec.reference))
    )
    mlir.register_lowering(primitive, default)
    for platform, handler in spec.handlers.items():
        if callable(handler):
            rule = _in_jax(spec, handler)
        else:
            rule = functools.partial(
                _lower,
                spec,
                primitive,
                platform,
                handler,
                default,
                _partitioned(spec, default),
            )
        rule = functools.partial(_unless_switched, spec, default, rule)
        mlir.register_lowering(primitive, rule, platform=platform)


def _partitioned(spec: OpSpec, default: LoweringRule) -> LoweringRule:
    if spec.partitioned is None:
        return functools.partial(_refuse_to_partition, spec)
    if spec.partitioned is spec.reference:
        return default
    return _in_jax(spec, spec.partitioned)


def _needs_shapes(spec: OpSpec) -> bool:
    """Whether attributes of a call depend on the shapes that a device has."""
    return spec.shape_attributes is not None or any(
        isinstance(handler, DeviceKernel) and handler.needs_shapes
        for handler in spec.handlers.values()
    )


def _unless_switched(
    spec: OpSpec,
    default: LoweringRule,
    rule: LoweringRule,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Sequence[ir.Value | Sequence[ir.Value]]:
    """Lowers by `rule`, or by the reference if the operation is switched.

    A call looks at the switch itself. But a program, or the backward pass of
    `jax.vjp`, may be traced outside of `use_reference` and compiled inside.
    """
    chosen = default if runs_reference(spec) else rule
    return chosen(ctx, *operands, attributes=attributes)


def _refuse(
    spec: OpSpec,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Sequence[ir.Value | Sequence[ir.Value]]:
    """Raises if an operation without a reference has no handler."""
    if spec.if_registered:
        known = "targets registered by jax.ffi.register_ffi_target"
    else:
        known = ", ".join(
            f"{target_of(handler) or handler} for {platform}"
            for platform, handler in spec.handlers.items()
        )
    raise NotImplementedError(
        f"{spec.name}: no handler for {_jax_hooks.platforms(ctx)}, and no "
        f"reference to run instead; its handlers: {known}"
    )


def _refuse_to_partition(
    spec: OpSpec,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Sequence[ir.Value | Sequence[ir.Value]]:
    raise NotImplementedError(
        f"{spec.name}: XLA cannot split a call with shared operands that have "
        "batch axes, shared results or a workspace over devices, and there is "
        "no reference to run instead: call it inside jax.shard_map, or give it "
        "partitioned="
    )


def _in_jax(spec: OpSpec, function: Function) -> LoweringRule:
    """The lowering that runs a function of the reference's signature."""

    def call(*operands: jax.Array, attributes: AttributeValues) -> Arrays:
        return shared_operands.in_jax(spec, function, attributes, *operands)

    return mlir.lower_fun(call, multiple_results=True)


def _lower(
    spec: OpSpec,
    primitive: Primitive,
    platform: str,
    handler: str | DeviceKernel,
    default: LoweringRule,
    partitioned: LoweringRule,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Sequence[ir.Value | Sequence[ir.Value]]:
    target = handler if isinstance(handler, str) else handler.target
    prepared = None
    if isinstance(handler, DeviceKernel):
        prepared = handler.prepare(
            Request(
                _jax_hooks.shaped(ctx.avals_in),
                _jax_hooks.shaped(ctx.avals_out),
                attributes.items,
                attributes.for_reference,
                _jax_hooks.is_for_export(ctx),
            )
        )
        if prepared is None:
            return default(ctx, *operands, attributes=attributes)
        if handler.library is not None:
            registration.register(handler.library, target)
    elif any(library.platform == platform for library in spec.libraries):
        library = handler_library.find(spec.libraries, platform, target)
        if library is None:
            return default(ctx, *operands, attributes=attributes)
        try:
            registration.register(library, target)
        except HandlerLibraryError as error:
            raise HandlerLibraryError(f"{spec.name}: {error}") from None
    elif spec.if_registered and not registration.is_registered(
        target, platform
    ):
        return default(ctx, *operands, attributes=attributes)
    elif platform == "cpu":
        known_faults.warn_once()

    avals = _jax_hooks.shaped(ctx.avals_in)
    lead = operand_checks.leading_shape(spec, avals)
    splits = bool(lead) and _jax_hooks.xla_may_partition(ctx)
    workspace = spec.workspace.get(platform)
    from_shapes = attribute_values.from_shapes(spec, avals, attributes)
    if _needs_partitioned(spec, avals, splits) or (splits and workspace):
        return partitioned(ctx, *operands, attributes=attributes)
    if splits and _needs_shapes(spec):
        return _on_each_device(
            spec, primitive, lead, attributes, ctx, *operands
        )
    units = _unit_axes(spec, avals, lead) if splits else (0, 0)
    results = ctx.avals_out
    if any(units):
        avals = [
            a if i in spec.shared else _with_axes(a, len(lead), sum(units))
            for i, a in enumerate(avals)
        ]
        operands = tuple(
            _reshape(x, a.shape) for x, a in zip(operands, avals, strict=True)
        )
        ctx = ctx.replace(
            avals_in=avals,
            avals_out=[
                a
                if i in spec.shared_results
                else _with_axes(a, len(lead), _units_of(a, lead, units))
                for i, a in enumerate(results)
            ],
        )
    if workspace is not None:
        size = workspace(*avals, **attributes.for_reference)
        hidden = ShapedArray((size,), np.dtype(np.uint8))
        ctx = ctx.replace(avals_out=[*ctx.avals_out, hidden])
    build = jax.ffi.build_ffi_lowering_function(
        target,
        has_side_effect=spec.has_side_effect,
        operand_output_aliases=spec.input_output_aliases or None,
        operand_layouts=_layouts(spec.input_layouts, ctx.avals_in),
        result_layouts=_layouts(spec.output_layouts, ctx.avals_out),
    )
    if prepared is None:
        given = {**attributes.items, **from_shapes}
    else:
        given = dict(prepared(avals))
    call = build(ctx, *operands, **given)
    if splits and not spec.shared_results:
        sharding.annotate_batch(
            call,
            (*lead, *(1,) * units[0]),
            [a.shape for a in avals],
            [a.shape for a in ctx.avals_out],
            spec.shared,
        )
    values: Sequence[ir.Value] = list(call.results)[: len(results)]
    if not any(units):
        return values
    return [_reshape(x, a.shape) for x, a in zip(values, results, strict=True)]


def _on_each_device(
    spec: OpSpec,
    primitive: Primitive,
    lead: Shape,
    attributes: AttributeValues,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
) -> Sequence[ir.Value | Sequence[ir.Value]]:
    """Lowers the operation again for the part that each device has."""

    def call(*shards: jax.Array) -> Arrays:
        return tuple(primitive.bind(*shards, attributes=attributes))

    shapes = [a.shape for a in _jax_hooks.shaped(ctx.avals_in)]
    results = [a.shape for a in _jax_hooks.shaped(ctx.avals_out)]
    split = sharding.over_devices(call, lead, shapes, results, spec.shared)
    lower: LoweringRule = mlir.lower_fun(split, multiple_results=True)
    return lower(ctx, *operands)


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


def _needs_partitioned(
    spec: OpSpec, avals: Sequence[Typed], splits: bool
) -> bool:
    """Whether the handler cannot run this call, with its shared operands."""
    batched = spec.depth(avals) > 0
    if batched and not spec.batches_shared:
        return True
    # XLA splits the same axes of all operands or none, and sums up nothing.
    return splits and (batched or bool(spec.shared_results))


def _unit_axes(
    spec: OpSpec, avals: Sequence[Typed], lead: Shape
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
    own = [n for i, n in enumerate(spec.kernel_axes) if i not in spec.shared]
    return max(rank - len(lead), 0), int(not any(own))


def _units_of(result: Typed, lead: Shape, units: tuple[int, int]) -> int:
    own = units[1] if len(result.shape) == len(lead) else 0
    return units[0] + own


def _with_axes(aval: ShapedArray, at: int, count: int) -> ShapedArray:
    shape = (*aval.shape[:at], *(1,) * count, *aval.shape[at:])
    return ShapedArray(shape, aval.dtype)


def _reshape(value: ir.Value, shape: Shape) -> ir.Value:
    element = value.type.element_type
    return _jax_hooks.hlo.reshape(
        ir.RankedTensorType.get(list(shape), element), value
    )
