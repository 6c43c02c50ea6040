"""Lowers an `FfiOp`: to its handler where there is one, else its reference."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit.library import registration
from xla_ffi_kit.library.handler_library import (
    HandlerLibrary,
    HandlerLibraryError,
)
from xla_ffi_kit.op import _sharding, _shared
from xla_ffi_kit.op._attributes import AttributeValues

if TYPE_CHECKING:
    from xla_ffi_kit.op.ffi_op import FfiOp


def install(op: FfiOp) -> None:
    """Registers the lowerings of `op`'s primitive, one per platform."""
    default = _in_jax(op, op.reference)
    mlir.register_lowering(op.primitive, default)
    for platform, handler in op.handlers.items():
        if callable(handler):
            rule = _in_jax(op, handler)
        else:
            rule = functools.partial(
                _lower,
                op,
                platform,
                handler,
                default,
                _in_jax(op, op.partitioned),
            )
        mlir.register_lowering(op.primitive, rule, platform=platform)


def _in_jax(op: FfiOp, function: Callable[..., Any]) -> Any:
    """The lowering that runs a function of the reference's signature."""

    def call(*operands: Any, attributes: AttributeValues) -> tuple[Any, ...]:
        return _shared.in_jax(op, function, attributes, *operands)

    return mlir.lower_fun(call, multiple_results=True)


def _lower(
    op: FfiOp,
    platform: str,
    target: str,
    default: Any,
    partitioned: Any,
    ctx: Any,
    *operands: Any,
    attributes: AttributeValues,
) -> Any:
    if op.libraries:
        library = find_library(op, platform, target)
        if library is None:
            return default(ctx, *operands, attributes=attributes)
        try:
            registration.register(library, target)
        except HandlerLibraryError as error:
            raise HandlerLibraryError(f"{op.name}: {error}") from None

    lead = op.check_operands(ctx.avals_in)
    splits = bool(lead) and _jax_hooks.xla_may_partition(ctx)
    if _needs_partitioned(op, ctx.avals_in, splits):
        return partitioned(ctx, *operands, attributes=attributes)
    units = _unit_axes(op, ctx.avals_in, lead) if splits else (0, 0)
    results = ctx.avals_out
    if any(units):
        avals_in = [
            a if i in op.shared else _with_axes(a, len(lead), sum(units))
            for i, a in enumerate(ctx.avals_in)
        ]
        operands = tuple(
            _reshape(x, a.shape)
            for x, a in zip(operands, avals_in, strict=True)
        )
        ctx = ctx.replace(
            avals_in=avals_in,
            avals_out=[
                a
                if i in op.shared_results
                else _with_axes(a, len(lead), _units_of(a, lead, units))
                for i, a in enumerate(results)
            ],
        )
    build = jax.ffi.build_ffi_lowering_function(
        target,
        has_side_effect=op.has_side_effect,
        operand_output_aliases=op.aliases or None,
    )
    call = build(ctx, *operands, **attributes.items)
    if splits and not op.shared_results:
        shapes = [a.shape for a in (*ctx.avals_in, *ctx.avals_out)]
        batch = (*lead, *(1,) * units[0])
        _sharding.annotate(call, batch, shapes, op.shared)
    if not any(units):
        return call.results
    return [
        _reshape(x, a.shape) for x, a in zip(call.results, results, strict=True)
    ]


def _needs_partitioned(op: FfiOp, avals: Sequence[Any], splits: bool) -> bool:
    """Whether the handler cannot run this call, with its shared operands."""
    batched = _shared.depth(op, avals) > 0
    if batched and not op.batches_shared:
        return True
    # XLA splits the same axes of all operands or none, and sums up nothing.
    return splits and (batched or bool(op.shared_results))


def _unit_axes(
    op: FfiOp, avals: Sequence[Any], lead: Sequence[Any]
) -> tuple[int, int]:
    """How many axes of size one to add: as batch, as the kernel's own.

    XLA partitions a custom call over its batch axes only if some operand has an
    axis beside them (ran: jaxlib 0.10.2 gathers an elementwise call otherwise).
    So a kernel that owns no axis gets one. And it takes the first axes of every
    operand for batch axes, but for operands that have fewer axes than there are
    batch axes (ran on all four versions); so there have to be more of them than
    a shared operand has. For one device there are none: XLA may give a reshaped
    array another layout, and then copies it (ran: bf16, and donated operands).
    """
    if not _check.is_static(*(a.shape for a in avals)):
        return 0, 0
    rank = max((len(avals[i].shape) + 1 for i in op.shared), default=0)
    own = [n for i, n in enumerate(op.kernel_axes) if i not in op.shared]
    return max(rank - len(lead), 0), int(not any(own))


def _units_of(result: Any, lead: Sequence[Any], units: tuple[int, int]) -> int:
    own = units[1] if len(result.shape) == len(lead) else 0
    return units[0] + own


def _with_axes(aval: Any, at: int, count: int) -> Any:
    shape = (*aval.shape[:at], *(1,) * count, *aval.shape[at:])
    return jax.core.ShapedArray(shape, aval.dtype)


def _reshape(value: Any, shape: Sequence[int]) -> Any:
    element = value.type.element_type
    return stablehlo.reshape(  # type: ignore[attr-defined]
        mlir.ir.RankedTensorType.get(list(shape), element), value
    )


def find_library(
    op: FfiOp, platform: str, target: str
) -> HandlerLibrary | None:
    """The library to take `target` from; None if the reference must do.

    Raises HandlerLibraryError if there must be one and it lacks the target.
    """
    offered = [lib for lib in op.libraries if lib.platform == platform]
    present = [lib for lib in offered if lib.exists]
    for library in present:
        if target in library.handlers:
            return library
    required = present or [lib for lib in offered if not lib.optional]
    if required:
        required[0].handler(target)  # raises, naming file and target
    return None
