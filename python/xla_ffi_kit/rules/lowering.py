"""Lowers an operation to its handler, or to its reference without one.

`_way` is the table of what may become of a call.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Literal, TypeAlias

import jax
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import registration
from xla_ffi_kit.op import attribute_values, batch_axes, implementation
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import (
    Arrays,
    DeviceKernel,
    Function,
    KernelAttributes,
    OpSpec,
    PlatformHandler,
    Request,
    TargetsByDtypes,
    target_of,
    targets_of,
)
from xla_ffi_kit.rules import custom_call, partitioning, per_device
from xla_ffi_kit.rules.custom_call import HandlerCall, Lowered


def rules(spec: OpSpec) -> Iterator[tuple[LoweringRule, str | None]]:
    """The lowerings of the primitive, and their platforms, None for others."""
    yield _as_traced(functools.partial(_lower_reference, spec)), None
    for platform, handler in spec.handlers.items():
        rule = functools.partial(_lower, spec, platform, handler)
        yield _as_traced(rule), platform


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


def _lower_reference(
    spec: OpSpec,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Lowered:
    """The lowering where no handler runs."""
    platforms = _jax_hooks.platforms(ctx)
    if spec.reference is None:
        handlers = ", ".join(
            f"{', '.join(targets_of(handler)) or handler} for {platform}"
            for platform, handler in spec.handlers.items()
        )
        if spec.if_registered:
            handlers = "targets registered by jax.ffi.register_ffi_target"
        raise NotImplementedError(
            f"{spec.name}: no handler for {platforms}, and no reference to run "
            f"instead; its handlers: {handlers}"
        )
    if attributes.insists:
        implementation.refuse(spec, platforms)
    implementation.warn_if_unregistered(spec, platforms)
    lower = _in_jax(spec, spec.reference)
    return lower(ctx, *operands, attributes=attributes)


def _in_jax(spec: OpSpec, function: Function) -> LoweringRule:
    """The lowering that runs a function of the reference's signature."""

    def call(*operands: jax.Array, attributes: AttributeValues) -> Arrays:
        return batch_axes.in_jax(spec, function, attributes, *operands)

    return mlir.lower_fun(call, multiple_results=True)


def _lower(
    spec: OpSpec,
    platform: str,
    handler: PlatformHandler,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    attributes: AttributeValues,
) -> Lowered:
    """The lowering for a platform with a handler."""
    call = HandlerCall(spec, platform, ctx, operands, attributes)
    handler_attributes: KernelAttributes | None = None
    if isinstance(handler, TargetsByDtypes):
        dtypes = zip(spec.operands, call.avals, strict=True)
        handler = handler.of({o.position: a.dtype.name for o, a in dtypes})
    # A call looks at the switch to the reference itself. But a program, or the
    # backward pass of `jax.vjp`, may be traced outside of `use_reference` and
    # compiled inside, so the reason is asked for again.
    runs_handler = implementation.reason(spec, platform, handler) is None
    if runs_handler and isinstance(handler, str | DeviceKernel):
        one_call = call.rows if _is_loop(call) else call
        handler_attributes = _prepare(one_call.with_one_batch_axis, handler)
        runs_handler = handler_attributes is not None
    if not runs_handler:
        return _lower_reference(spec, ctx, *operands, attributes=attributes)
    way = _way(call, handler)
    match way:
        case "call" if handler_attributes is not None:
            target = target_of(handler)
            assert target is not None
            return custom_call.build(call, target, handler_attributes)
        case "call":
            assert not isinstance(handler, str | DeviceKernel)
            lower = _in_jax(spec, handler)
            return lower(ctx, *operands, attributes=attributes)
        case "in turn":
            return _in_turn(call)
        case "partitioned":
            return _partitioned(call)
        case "each device":
            return per_device.split(call)
        case "sharded":
            specs = partitioning.lead_specs(spec, call.avals, call.lead)
            return per_device.in_manual_region(call, specs)
        case "whole":
            return per_device.in_manual_region(call, [])


# --- The choice ---------------------------------------------------------------

_Way: TypeAlias = Literal[
    "call", "in turn", "partitioned", "each device", "sharded", "whole"
]


def _way(call: HandlerCall, handler: str | DeviceKernel | Function) -> _Way:
    """How a call runs: the first line whose condition holds decides.

    "call": the custom call, which XLA splits by its own partitioner, or not at
      all. For a handler that is a function: this function.
    "in turn": a loop of calls over the axes that `depth` counts.
    "partitioned": the function of that name in the spec, or the reference.
    "each device": a call that XLA splits by asking for the program of one
      device, when it knows the shardings.
    "sharded": in a `shard_map`, with the shardings of an Explicit mesh.
    "whole": in a `shard_map` that gathers all operands on each device.
    """
    spec, advanced = call.spec, call.spec.advanced
    has_side_effect = advanced.has_side_effect
    is_split = call.devices > 1 and bool(call.lead)
    # XLA gathers operands of unknown sizes, and cannot refine such sizes inside
    # of a `shard_map`.
    is_static = _check.is_static(*(a.shape for a in call.avals))
    is_explicit = partitioning.is_explicit(_jax_hooks.mesh_of(call.ctx))
    # XLA asks Python while it compiles. An exported program may be compiled
    # without Python, and inside of a `shard_map` the mesh is split already.
    xla_asks = not (
        _jax_hooks.is_for_export(call.ctx) or _jax_hooks.manual_axes(call.ctx)
    )

    if not isinstance(handler, str | DeviceKernel):
        if not is_split or not is_static or has_side_effect:
            return "call"
        if _partitions_itself(call, handler):
            return "call"
        if is_explicit:
            return "sharded"
        return "each device" if xla_asks else "call"

    if not is_split:
        if _is_loop(call):
            return "in turn"
        if call.depth and not advanced.batches_shared:
            return "in turn" if _repeats_much(call) else "partitioned"
        # XLA would refuse a side effect outside of `shard_map`.
        return "whole" if has_side_effect and call.devices > 1 else "call"

    needs_more = _needs_more_than_rows(call)
    is_carried = is_static and _is_carried(call)
    is_even = partitioning.divided(call.ctx, call.lead) == call.lead
    if has_side_effect and spec.shared_results:
        # A function of JAX, as in "partitioned", has no side effect, and parts
        # of the rows would repeat it.
        return "whole"
    if has_side_effect and not is_static:
        raise NotImplementedError(
            f"{spec.name}: batch axes: expected known sizes, as XLA exports no "
            "call with a side effect and any number of rows for several "
            "devices; export it with known sizes, or for one device"
        )
    if needs_more and advanced.partitioned is not None and not has_side_effect:
        return "partitioned"
    if is_carried and is_even:
        return "call"
    if is_static and is_explicit and not is_carried:
        return "sharded"
    if is_static and xla_asks:
        return "each device"
    if is_carried:
        return "call"
    if has_side_effect:
        return "whole"
    if _is_loop(call):
        return "in turn"
    if needs_more:
        return "partitioned"
    return "whole" if is_static else "call"


# A jaxpr with one of these says itself how devices split its work.
_SPLITS = (" custom_partitioning[", " shard_map[", " sharding_constraint[")


def _partitions_itself(call: HandlerCall, function: Function) -> bool:
    """Whether a function says itself how devices split its work."""
    run = functools.partial(
        batch_axes.in_jax, call.spec, function, call.attributes
    )
    types = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in call.avals]
    try:
        text = str(jax.make_jaxpr(run)(*types))
    except Exception:
        # It may need the mesh. Its lowering will raise, if it does.
        return True
    return any(word in text for word in _SPLITS)


def _is_loop(call: HandlerCall) -> bool:
    """Whether nothing but a loop runs the axes that `depth` counts."""
    return call.spec.loops and call.depth > 0


# One call for all rows is faster than a loop while each row's copy of what is
# shared stays in proportion to the arrays of the call.
_MAX_REPEATED = 4


def _repeats_much(call: HandlerCall) -> bool:
    """Whether `partitioned` would make large copies of shared operands.

    That of a derivative by the kernel itself makes one for each row.
    """
    spec, derivatives = call.spec, call.spec.advanced.differentiate
    arrays = [*call.avals, *call.results]
    if (
        spec.advanced.partitioned is not None
        or derivatives is None
        or derivatives.over_rows is None
        or not _check.is_static(*(a.shape for a in arrays))
    ):
        return False
    rows = math.prod(call.lead[call.depth :])
    repeated = rows * sum(_bytes(call.avals[i]) for i in spec.shared)
    return repeated > _MAX_REPEATED * sum(map(_bytes, arrays))


def _bytes(x: Typed) -> int:
    return math.prod(x.shape) * x.dtype.itemsize


def _needs_more_than_rows(call: HandlerCall) -> bool:
    """Whether a part of the rows is not a call of the same kind.

    XLA splits the same axes of all operands or none, and sums up nothing.
    """
    spec = call.spec
    return bool(
        (call.depth and not spec.is_sequential)
        or spec.shared_results
        or call.platform in spec.advanced.workspace
    )


def _is_carried(call: HandlerCall) -> bool:
    """Whether XLA's own partitioner keeps all that a call needs."""
    spec, lead = call.spec, call.lead
    return not (
        call.depth
        or _needs_more_than_rows(call)
        or spec.input_output_aliases
        or spec.advanced.has_side_effect
        or call.needs_shapes
        or _has_more_axes_than_one(call)
        or any(
            tuple(a.shape[: len(lead)]) != lead
            for i, a in enumerate(call.avals)
            if i not in spec.shared
        )
    )


def _has_more_axes_than_one(call: HandlerCall) -> bool:
    """Whether a handler of one batch axis would get more of them."""
    return call.spec.advanced.one_batch_axis and (
        call.with_one_batch_axis is not call
        # XLA's partitioner needs them.
        or any(custom_call.unit_axes(call.spec, call.avals, call.lead))
    )


# --- The ways -----------------------------------------------------------------


def _prepare(
    call: HandlerCall, handler: str | DeviceKernel
) -> KernelAttributes | None:
    """Registers a handler, and returns the attributes that it gets.

    None if the reference must run.
    """
    spec, platform = call.spec, call.platform
    if isinstance(handler, DeviceKernel):
        request = Request(
            call.avals,
            call.results,
            call.attributes.items,
            call.attributes.for_reference,
            _jax_hooks.is_for_export(call.ctx),
        )
        prepared = handler.prepare(request)
        if prepared is not None and handler.library is not None:
            registration.register_handler(
                handler.library, handler.target, platform
            )
        return prepared
    library = implementation.library_of(spec, platform, handler)
    if library is not None:
        try:
            registration.register_handler(library, handler, platform)
        except HandlerLibraryError as error:
            raise HandlerLibraryError(f"{spec.name}: {error}") from None
    from_shapes = attribute_values.from_shapes(
        spec, call.avals, call.attributes
    )
    attributes = {**call.attributes.items, **from_shapes}
    return lambda _: attributes


def _in_turn(call: HandlerCall) -> Lowered:
    """Lowers to a loop of calls without the batch axes that it goes over."""
    run = batch_axes.over_batches(
        call.spec, call.run, call.avals, batch_axes.in_turn
    )
    lower: LoweringRule = mlir.lower_fun(run, multiple_results=True)
    return lower(call.ctx, *call.operands)


def _partitioned(call: HandlerCall) -> Lowered:
    """Lowers to the spec's function for calls that no handler can split."""
    spec = call.spec
    if spec.partitioned is None:
        raise NotImplementedError(
            f"{spec.name}: in an exported program, or a shard_map that leaves "
            "Auto axes, XLA cannot split a call with shared operands that have "
            "batch axes, shared results or a workspace over devices, and there "
            "is no reference to run instead: call it inside a jax.shard_map "
            "over all axes, or give it partitioned="
        )
    lower: LoweringRule = functools.partial(_lower_reference, spec)
    if spec.partitioned is not spec.reference:
        lower = _in_jax(spec, spec.partitioned)
    return lower(call.ctx, *call.operands, attributes=call.attributes)
