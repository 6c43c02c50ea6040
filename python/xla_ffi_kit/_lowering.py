"""Lowers an `FfiOp`: to its handler where there is one, else its reference."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

from xla_ffi_kit import _registration, _sharding
from xla_ffi_kit._attributes import AttributeValues
from xla_ffi_kit._library import HandlerLibrary, HandlerLibraryError

if TYPE_CHECKING:
    from xla_ffi_kit.ffi_op import FfiOp


def install(op: FfiOp) -> None:
    """Registers the lowerings of `op`'s primitive, one per platform."""

    def reference(
        *operands: Any, attributes: AttributeValues
    ) -> tuple[Any, ...]:
        return op.flatten(op.reference(*operands, **attributes.for_reference))

    default = mlir.lower_fun(reference, multiple_results=True)
    mlir.register_lowering(op.primitive, default)
    for platform in op.handlers:
        rule = functools.partial(_lower, op, platform, default)
        mlir.register_lowering(op.primitive, rule, platform=platform)


def _lower(
    op: FfiOp,
    platform: str,
    default: Any,
    ctx: Any,
    *operands: Any,
    attributes: AttributeValues,
) -> Any:
    target = op.handlers[platform]
    if op.libraries:
        library = find_library(op, platform, target)
        if library is None:
            return default(ctx, *operands, attributes=attributes)
        try:
            _registration.register(library, target)
        except HandlerLibraryError as error:
            raise HandlerLibraryError(f"{op.name}: {error}") from None

    lead = op.check_operands(ctx.avals_in)
    widened = bool(lead) and not any(op.kernel_axes) and _static(ctx.avals_in)
    if widened:
        avals_in = [_with_unit_axis(a) for a in ctx.avals_in]
        operands = tuple(
            _reshape(x, a.shape)
            for x, a in zip(operands, avals_in, strict=True)
        )
        whole = [len(a.shape) == len(lead) for a in ctx.avals_out]
        avals_out = [
            _with_unit_axis(a) if w else a
            for a, w in zip(ctx.avals_out, whole, strict=True)
        ]
        ctx_out = ctx.avals_out
        ctx = ctx.replace(avals_in=avals_in, avals_out=avals_out)
    build = jax.ffi.build_ffi_lowering_function(
        target,
        has_side_effect=op.has_side_effect,
        operand_output_aliases=op.aliases or None,
    )
    call = build(ctx, *operands, **attributes.items)
    shapes = [a.shape for a in (*ctx.avals_in, *ctx.avals_out)]
    _sharding.annotate(call, lead, shapes)
    if not widened:
        return call.results
    return [
        _reshape(x, a.shape) for x, a in zip(call.results, ctx_out, strict=True)
    ]


# XLA partitions a custom call over its batch axes only if some operand has an
# axis beside them (ran: jaxlib 0.10.2 gathers an elementwise call otherwise).
# So a kernel that owns no axis gets one of size one; the reshape is free.


def _with_unit_axis(aval: Any) -> Any:
    return jax.core.ShapedArray((*aval.shape, 1), aval.dtype)


def _reshape(value: Any, shape: Sequence[int]) -> Any:
    element = value.type.element_type
    return stablehlo.reshape(  # type: ignore[attr-defined]
        mlir.ir.RankedTensorType.get(list(shape), element), value
    )


def _static(avals: Sequence[Any]) -> bool:
    return all(isinstance(size, int) for a in avals for size in a.shape)


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
