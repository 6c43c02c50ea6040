"""Lowers an operation to its handler, or to its reference without one."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Literal, NoReturn

import jax
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
    custom_call,
    fallback,
    operand_checks,
    per_device,
    sharding,
    shared_operands,
)
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.custom_call import HandlerCall
from xla_ffi_kit.primitive.device_kernel import (
    DeviceKernel,
    Request,
    target_of,
)
from xla_ffi_kit.primitive.reference_switch import runs_reference
from xla_ffi_kit.primitive.spec import Arrays, Function, OpSpec


def install(spec: OpSpec, primitive: Primitive) -> None:
    """Registers the lowerings of the primitive, one per platform."""
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


def _refuse_shared(spec: OpSpec) -> NoReturn:
    raise NotImplementedError(
        f"{spec.name}: shared operands: expected no batch axes, as the handler "
        "takes none, and no reference has its side effect; map over them with "
        "jax.vmap, or declare batches_shared=True"
    )


def _refuse_unknown_sizes(spec: OpSpec) -> NoReturn:
    raise NotImplementedError(
        f"{spec.name}: batch axes: expected known sizes, as XLA exports no "
        "call with a side effect and any number of rows for several devices; "
        "export it with known sizes, or for one device"
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
    call = _handler_call(spec, platform, handler, ctx, attributes)
    if call is None:
        return default(ctx, *operands, attributes=attributes)
    avals = _jax_hooks.shaped(ctx.avals_in)
    lead = operand_checks.leading_shape(spec, avals)
    devices = _jax_hooks.partition_count(ctx)
    way = _way(spec, platform, ctx, lead, devices)
    if way == "partitioned":
        return partitioned(ctx, *operands, attributes=attributes)
    if way == "call":
        batch = sharding.divided(ctx, lead) if devices > 1 else ()
        return custom_call.build(spec, ctx, operands, call, batch)

    def run(*parts: jax.Array) -> Arrays:
        return tuple(primitive.bind(*parts, attributes=attributes))

    if way == "each device":
        return per_device.split(
            ctx,
            run,
            platform,
            lead,
            operands,
            shared=spec.shared,
            has_side_effect=spec.has_side_effect,
            needs_shapes=_needs_shapes(spec),
        )
    specs = () if way == "whole" else sharding.lead_specs(spec, avals, lead)
    return per_device.in_manual_region(
        ctx, run, lead, operands, specs=specs, shared=spec.shared
    )


_Way = Literal["call", "partitioned", "each device", "sharded", "whole"]


def _way(
    spec: OpSpec,
    platform: str,
    ctx: LoweringRuleContext,
    lead: Shape,
    devices: int,
) -> _Way:
    """How to run a call that XLA may split over devices.

    "call": by its own partitioner, or not at all. "partitioned": the function
    of the spec. "each device": lowered again when XLA knows the shardings.
    "sharded", "whole": in a `shard_map`, with the shardings of an Explicit mesh
    or without any.
    """
    avals = _jax_hooks.shaped(ctx.avals_in)
    splits = bool(lead) and devices > 1
    needs_partitioned = _needs_partitioned(spec, avals, splits) or (
        splits and platform in spec.workspace
    )
    if needs_partitioned and not spec.has_side_effect:
        return "partitioned"
    if needs_partitioned:  # No function of JAX has the side effect.
        if not splits:
            _refuse_shared(spec)
        return "whole"
    if devices == 1:
        return "call"
    if not lead:  # XLA would refuse a side effect outside of a `shard_map`.
        return "whole" if spec.has_side_effect else "call"
    if not _check.is_static(*(a.shape for a in avals)):
        # Gathered by XLA, which cannot refine sizes inside of a `shard_map`.
        if spec.has_side_effect:
            _refuse_unknown_sizes(spec)
        return "call"
    is_carried = _is_carried(spec, avals, lead)
    if is_carried and sharding.divided(ctx, lead) == lead:
        return "call"
    if not is_carried and sharding.is_explicit(_jax_hooks.mesh_of(ctx)):
        return "sharded"
    for_export = _jax_hooks.is_for_export(ctx)
    if not for_export and not _jax_hooks.manual_axes(ctx):
        return "each device"
    return "call" if is_carried else "whole"


def _is_carried(spec: OpSpec, avals: Sequence[Typed], lead: Shape) -> bool:
    """Whether XLA's own partitioner keeps all that a call needs."""
    return not (
        spec.input_output_aliases
        or spec.has_side_effect
        or _needs_shapes(spec)
        or any(
            tuple(a.shape[: len(lead)]) != lead
            for i, a in enumerate(avals)
            if i not in spec.shared
        )
    )


def _handler_call(
    spec: OpSpec,
    platform: str,
    handler: str | DeviceKernel,
    ctx: LoweringRuleContext,
    attributes: AttributeValues,
) -> HandlerCall | None:
    """Registers a handler, and finds what it gets besides operands.

    Returns None if the reference must run.
    """
    workspace = spec.workspace.get(platform)
    size = workspace and functools.partial(
        workspace, **attributes.for_reference
    )
    avals = _jax_hooks.shaped(ctx.avals_in)
    if isinstance(handler, DeviceKernel):
        prepared = handler.prepare(
            Request(
                avals,
                _jax_hooks.shaped(ctx.avals_out),
                attributes.items,
                attributes.for_reference,
                _jax_hooks.is_for_export(ctx),
            )
        )
        if prepared is None:
            return None
        if handler.library is not None:
            registration.register(handler.library, handler.target)
        return HandlerCall(handler.target, prepared, size)
    if any(library.platform == platform for library in spec.libraries):
        library = handler_library.find(spec.libraries, platform, handler)
        if library is None:
            return None
        try:
            registration.register(library, handler)
        except HandlerLibraryError as error:
            raise HandlerLibraryError(f"{spec.name}: {error}") from None
    elif spec.if_registered and not registration.is_registered(
        handler, platform
    ):
        return None
    elif platform == "cpu":
        known_faults.warn_once()
    from_shapes = attribute_values.from_shapes(spec, avals, attributes)
    given = {**attributes.items, **from_shapes}
    return HandlerCall(handler, lambda _: given, size)


def _needs_partitioned(
    spec: OpSpec, avals: Sequence[Typed], splits: bool
) -> bool:
    """Whether the handler cannot run this call, with its shared operands."""
    batched = spec.depth(avals) > 0
    if batched and not spec.batches_shared:
        return True
    # XLA splits the same axes of all operands or none, and sums up nothing.
    return splits and (batched or bool(spec.shared_results))
