"""Lowers an operation to its handler, or to its reference without one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Literal, NoReturn, TypeAlias

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.op import attribute_values, shared_operands
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.device_kernel import (
    Attributes,
    DeviceKernel,
    Request,
    TargetsByDtypes,
    target_of,
    targets_of,
)
from xla_ffi_kit.op.reference_switch import runs_reference
from xla_ffi_kit.op.spec import Arrays, Function, Handler, OpSpec
from xla_ffi_kit.rules import (
    custom_call,
    fallback,
    partitioning,
    per_device,
)
from xla_ffi_kit.rules.custom_call import Call
from xla_ffi_kit.rules.fallback import Lowered


def rules(spec: OpSpec) -> Iterator[tuple[LoweringRule, str | None]]:
    """The lowerings of the primitive, and their platforms, None for others."""
    yield _as_traced(_default(spec)), None
    for platform, handler in spec.handlers.items():
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
    handler: Handler,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Lowered:
    """The lowering for a platform with a handler."""
    call = Call(spec, platform, ctx, operands, attributes)
    lowered: Callable[[], Lowered]
    if isinstance(handler, TargetsByDtypes):
        dtypes = zip(spec.operands, call.avals, strict=True)
        handler = handler.of({o.place: a.dtype.name for o, a in dtypes})
    if isinstance(handler, str | DeviceKernel):
        called = call.rows if _loops(call) else call
        prepared = _prepare(called.as_handler_takes_it, handler)
        if prepared is None:
            return _default(spec)(ctx, *operands, attributes=attributes)
        target = target_of(handler)
        assert target is not None
        lowered = functools.partial(custom_call.build, call, target, prepared)
        way = _way(call)
    else:
        in_jax = _in_jax(spec, handler)
        lowered = functools.partial(
            in_jax, ctx, *operands, attributes=attributes
        )
        way = _way_of_function(call, handler)
    if way == "call":
        return lowered()
    if way == "in turn":
        return _in_turn(call)
    if way == "partitioned":
        return _partitioned(spec)(ctx, *operands, attributes=attributes)
    if way == "each device":
        return per_device.split(call)
    is_whole = way == "whole"
    specs = (
        [] if is_whole else partitioning.lead_specs(spec, call.avals, call.lead)
    )
    return per_device.in_manual_region(call, specs)


def _in_turn(call: Call) -> Lowered:
    """Lowers to a loop of calls without the batch axes that it goes over."""
    run = shared_operands.over_batches(
        call.spec, call.run, call.avals, shared_operands.in_turn
    )
    lower: LoweringRule = mlir.lower_fun(run, multiple_results=True)
    return lower(call.ctx, *call.operands)


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
    "call", "in turn", "partitioned", "each device", "sharded", "whole"
]


def _way(call: Call) -> _Way:
    """How to run a call of a handler: the first line whose condition holds.

    "call": the custom call, which XLA splits by its own partitioner, or not at
    all. "in turn": a loop of calls. "partitioned": the function of the spec.
    "each device": lowered again when XLA knows the shardings. "sharded",
    "whole": in a `shard_map`, with the shardings of an Explicit mesh or without
    any.
    """
    spec, advanced = call.spec, call.spec.advanced
    has_side_effect = advanced.has_side_effect
    if call.devices == 1 or not call.lead:  # Nothing is split.
        if _loops(call):
            return "in turn"
        if call.depth and not advanced.batches_shared:
            return "in turn" if _repeats_much(call) else "partitioned"
        # XLA would refuse a side effect outside of `shard_map`.
        return "whole" if has_side_effect and call.devices > 1 else "call"
    if spec.shared_results and has_side_effect:
        return "whole"  # No function of JAX has it, and it is not repeated.
    needs_more = _needs_more_than_rows(call)
    if needs_more and advanced.partitioned is not None and not has_side_effect:
        return "partitioned"
    # Unknown sizes are gathered by XLA, which cannot refine them inside of a
    # `shard_map`.
    is_static = _check.is_static(*(a.shape for a in call.avals))
    if has_side_effect and not is_static:
        _refuse_unknown_sizes(spec)
    if is_static:
        is_carried = _is_carried(call)
        if (
            is_carried
            and partitioning.divided(call.ctx, call.lead) == call.lead
        ):
            return "call"
        is_explicit = partitioning.is_explicit(_jax_hooks.mesh_of(call.ctx))
        if is_explicit and not is_carried:
            return "sharded"
        if _may_ask(call.ctx):
            return "each device"
        if is_carried or has_side_effect:
            return "call" if is_carried else "whole"
    if _loops(call):
        return "in turn"
    if needs_more:
        return "partitioned"
    return "whole" if is_static else "call"


def _way_of_function(call: Call, function: Function) -> _Way:
    """How to run a call of a function that is the platform's handler.

    A device runs it for its rows, unless it says itself how to split them.
    """
    if (
        call.devices == 1
        or not call.lead
        or call.spec.advanced.has_side_effect
        or not _check.is_static(*(a.shape for a in call.avals))
        or _partitions_itself(call, function)
    ):
        return "call"
    if partitioning.is_explicit(_jax_hooks.mesh_of(call.ctx)):
        return "sharded"
    return "each device" if _may_ask(call.ctx) else "call"


# What says in a jaxpr how devices split the work.
_SPLITS = (" custom_partitioning[", " shard_map[", " sharding_constraint[")


def _partitions_itself(call: Call, function: Function) -> bool:
    run = functools.partial(
        shared_operands.in_jax, call.spec, function, call.attributes
    )
    types = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in call.avals]
    try:
        text = str(jax.make_jaxpr(run)(*types))
    except Exception:  # It may need the mesh; its own lowering says what.
        return True
    return any(word in text for word in _SPLITS)


def _may_ask(ctx: LoweringRuleContext) -> bool:
    """Whether XLA will ask for the program of each device."""
    return not _jax_hooks.is_for_export(ctx) and not _jax_hooks.manual_axes(ctx)


def _loops(call: Call) -> bool:
    """Whether nothing but a loop runs the axes that `depth` counts."""
    return call.spec.loops and call.depth > 0


# One call for all rows is faster than a loop while each row's copy of what is
# shared stays in proportion to the arrays of the call.
_MAX_REPEATED = 4


def _repeats_much(call: Call) -> bool:
    """Whether `partitioned` would make large copies of shared operands.

    That of a derivative by the kernel itself makes one for each row.
    """
    spec, made = call.spec, call.spec.advanced.differentiate
    arrays = [*call.avals, *call.results]
    if (
        spec.advanced.partitioned is not None
        or made is None
        or made.over_rows is None
        or not _check.is_static(*(a.shape for a in arrays))
    ):
        return False
    rows = math.prod(call.lead[call.depth :])
    repeated = rows * sum(_bytes(call.avals[i]) for i in spec.shared)
    return repeated > _MAX_REPEATED * sum(map(_bytes, arrays))


def _bytes(x: Typed) -> int:
    return math.prod(x.shape) * x.dtype.itemsize


def _needs_more_than_rows(call: Call) -> bool:
    """Whether a part of the rows is not a call of the same kind.

    XLA splits the same axes of all operands or none, and sums up nothing.
    """
    spec = call.spec
    return bool(
        (call.depth and not spec.is_sequential)
        or spec.shared_results
        or call.platform in spec.advanced.workspace
    )


def _is_carried(call: Call) -> bool:
    """Whether XLA's own partitioner keeps all that a call needs."""
    spec, lead = call.spec, call.lead
    return not (
        call.depth
        or _needs_more_than_rows(call)
        or spec.input_output_aliases
        or spec.advanced.has_side_effect
        or call.needs_shapes
        or call.as_handler_takes_it is not call
        or any(
            tuple(a.shape[: len(lead)]) != lead
            for i, a in enumerate(call.avals)
            if i not in spec.shared
        )
    )


def _partitioned(spec: OpSpec) -> LoweringRule:
    """The lowering of a call that needs `partitioned`."""
    if spec.partitioned is None:
        raise NotImplementedError(
            f"{spec.name}: in an exported program, or a shard_map that leaves "
            "Auto axes, XLA cannot split a call with shared operands that have "
            "batch axes, shared results or a workspace over devices, and there "
            "is no reference to run instead: call it inside a jax.shard_map "
            "over all axes, or give it partitioned="
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
            f"{', '.join(targets_of(handler)) or handler} for {platform}"
            for platform, handler in spec.handlers.items()
        )
    raise NotImplementedError(
        f"{spec.name}: no handler for {_jax_hooks.platforms(ctx)}, and no "
        f"reference to run instead; its handlers: {known}"
    )


def _refuse_unknown_sizes(spec: OpSpec) -> NoReturn:
    raise NotImplementedError(
        f"{spec.name}: batch axes: expected known sizes, as XLA exports no "
        "call with a side effect and any number of rows for several devices; "
        "export it with known sizes, or for one device"
    )
