"""Lowers an operation to its handler, or to its reference without one."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Literal, NoReturn, TypeAlias

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.primitive import (
    attribute_values,
    custom_call,
    fallback,
    per_device,
    sharding,
    shared_operands,
)
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.custom_call import Call
from xla_ffi_kit.primitive.device_kernel import (
    Attributes,
    DeviceKernel,
    Request,
    target_of,
)
from xla_ffi_kit.primitive.fallback import Lowered
from xla_ffi_kit.primitive.reference_switch import runs_reference
from xla_ffi_kit.primitive.spec import Arrays, Function, OpSpec


def rules(spec: OpSpec) -> Iterator[tuple[LoweringRule, str | None]]:
    """The lowerings of the primitive, and their platforms, None for others."""
    yield _as_traced(_default(spec)), None
    for platform, handler in spec.handlers.items():
        if callable(handler):
            rule = _in_jax(spec, handler)
        else:
            rule = functools.partial(_lower, spec, platform, handler)
        chosen = functools.partial(_unless_switched, spec, rule)
        yield _as_traced(chosen), platform


def _as_traced(rule: LoweringRule) -> LoweringRule:
    """`rule`, with 64-bit types on exactly if the call was traced so."""

    def lower(
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        attributes: AttributeValues,
    ) -> Lowered:
        with jax.enable_x64(attributes.x64):
            return rule(ctx, *operands, attributes=attributes)

    return lower


def _default(spec: OpSpec) -> LoweringRule:
    """The lowering where no handler runs."""
    if spec.reference is None:
        return functools.partial(_refuse, spec)
    return fallback.lowers_reference(spec, _in_jax(spec, spec.reference))


def _unless_switched(
    spec: OpSpec,
    rule: LoweringRule,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Lowered:
    """Lowers by `rule`, or by the reference if the operation is switched.

    A call looks at the switch itself. But a program, or the backward pass of
    `jax.vjp`, may be traced outside of `use_reference` and compiled inside.
    """
    chosen = _default(spec) if runs_reference(spec) else rule
    return chosen(ctx, *operands, attributes=attributes)


def _in_jax(spec: OpSpec, function: Function) -> LoweringRule:
    """The lowering that runs a function of the reference's signature."""

    def call(*operands: jax.Array, attributes: AttributeValues) -> Arrays:
        return shared_operands.in_jax(spec, function, attributes, *operands)

    return mlir.lower_fun(call, multiple_results=True)


def _lower(
    spec: OpSpec,
    platform: str,
    handler: str | DeviceKernel,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Lowered:
    """The lowering for a platform with a handler."""
    call = Call(spec, platform, ctx, operands, attributes)
    prepared = _prepare(call, handler)
    if prepared is None:
        return _default(spec)(ctx, *operands, attributes=attributes)
    way = _way(call)
    if way == "call":
        target = target_of(handler)
        assert target is not None
        return custom_call.build(call, target, prepared)
    if way == "partitioned":
        return _partitioned(spec)(ctx, *operands, attributes=attributes)
    if way == "each device":
        return per_device.split(call)
    is_whole = way == "whole"
    specs = [] if is_whole else sharding.lead_specs(spec, call.avals, call.lead)
    return per_device.in_manual_region(call, specs)


# --- The handler --------------------------------------------------------------


def _prepare(call: Call, handler: str | DeviceKernel) -> Attributes | None:
    """Registers a handler; the attributes that it gets.

    Returns None if the reference must run.
    """
    if not isinstance(handler, DeviceKernel):
        if not _registers(call.spec, call.platform, handler):
            return None
        from_shapes = attribute_values.from_shapes(
            call.spec, call.avals, call.attributes
        )
        given = {**call.attributes.items, **from_shapes}
        return lambda _: given
    prepared = handler.prepare(
        Request(
            call.avals,
            call.results,
            call.attributes.items,
            call.attributes.for_reference,
            _jax_hooks.is_for_export(call.ctx),
        )
    )
    if prepared is not None and handler.library is not None:
        registration.register_handler(
            handler.library, handler.target, call.platform
        )
    return prepared


def _registers(spec: OpSpec, platform: str, target: str) -> bool:
    """Registers a target of the libraries; False if nothing has it."""
    if not handler_library.serves(spec.libraries, platform):
        return not spec.if_registered or registration.is_registered(
            target, platform
        )
    library = handler_library.find(spec.libraries, platform, target)
    if library is None:
        return False
    try:
        registration.register_handler(library, target, platform)
    except HandlerLibraryError as error:
        raise HandlerLibraryError(f"{spec.name}: {error}") from None
    return True


# --- The way ------------------------------------------------------------------

_Way: TypeAlias = Literal[
    "call", "partitioned", "each device", "sharded", "whole"
]


def _way(call: Call) -> _Way:
    """How to run a call that XLA may split over devices.

    "call": by its own partitioner, or not at all. "partitioned": the function
    of the spec. "each device": lowered again when XLA knows the shardings.
    "sharded", "whole": in a `shard_map`, with the shardings of an Explicit mesh
    or without any.
    """
    spec = call.spec
    has_side_effect = spec.advanced.has_side_effect
    splits = bool(call.lead) and call.devices > 1
    if _needs_partitioned(call, splits):
        if not has_side_effect:
            return "partitioned"
        if not splits:  # No function of JAX has the side effect.
            _refuse_shared(spec)
        return "whole"
    if call.devices == 1:
        return "call"
    if not call.lead:  # XLA would refuse a side effect outside of `shard_map`.
        return "whole" if has_side_effect else "call"
    if not _check.is_static(*(a.shape for a in call.avals)):
        # Gathered by XLA, which cannot refine sizes inside of a `shard_map`.
        if has_side_effect:
            _refuse_unknown_sizes(spec)
        return "call"
    return _way_of_rows(call)


def _way_of_rows(call: Call) -> _Way:
    """How to run a call whose rows XLA may split."""
    ctx, is_carried = call.ctx, _is_carried(call)
    if is_carried and sharding.divided(ctx, call.lead) == call.lead:
        return "call"
    if not is_carried and sharding.is_explicit(_jax_hooks.mesh_of(ctx)):
        return "sharded"
    if not _jax_hooks.is_for_export(ctx) and not _jax_hooks.manual_axes(ctx):
        return "each device"
    return "call" if is_carried else "whole"


def _is_carried(call: Call) -> bool:
    """Whether XLA's own partitioner keeps all that a call needs."""
    spec, lead = call.spec, call.lead
    return not (
        spec.input_output_aliases
        or spec.advanced.has_side_effect
        or call.needs_shapes
        or any(
            tuple(a.shape[: len(lead)]) != lead
            for i, a in enumerate(call.avals)
            if i not in spec.shared
        )
    )


def _needs_partitioned(call: Call, splits: bool) -> bool:
    """Whether the handler cannot run this call, with its shared operands."""
    spec = call.spec
    batched = spec.depth(call.avals) > 0
    if batched and not spec.advanced.batches_shared:
        return True
    # XLA splits the same axes of all operands or none, and sums up nothing.
    alone = call.platform in spec.advanced.workspace
    return splits and (batched or bool(spec.shared_results) or alone)


def _partitioned(spec: OpSpec) -> LoweringRule:
    """The lowering of a call that needs `partitioned`."""
    if spec.partitioned is None:
        raise NotImplementedError(
            f"{spec.name}: XLA cannot split a call with shared operands that "
            "have batch axes, shared results or a workspace over devices, and "
            "there is no reference to run instead: call it inside "
            "jax.shard_map, or give it partitioned="
        )
    if spec.partitioned is spec.reference:
        return _default(spec)
    return _in_jax(spec, spec.partitioned)


# --- Refusals -----------------------------------------------------------------


def _refuse(
    spec: OpSpec,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> NoReturn:
    """The rule of an operation without a reference where it has no handler."""
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
