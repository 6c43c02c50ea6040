"""What makes an operand: constants and pads, which XLA folds into their use.

A function is lowered before the operation that calls it. So operands of calls
are looked at first, and what is known of them is kept for the function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_accelerate import _jax, _setting


@dataclasses.dataclass(frozen=True)
class Pad:
    """A pad, with an entry for each axis.

    Attributes:
      shape: what it pads.
      low: what it adds in front.
      high: at the end.
      interior: between two elements.
    """

    shape: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]

    def transposed(self, order: Sequence[int]) -> Pad:
        """The pad of a transposed array."""
        fields = dataclasses.astuple(self)
        return Pad(*(tuple(x[i] for i in order) for x in fields))


Source: TypeAlias = Pad | Literal["constant"] | None
_Arguments: TypeAlias = Callable[[ir.BlockArgument], Source]

# Operations that XLA does not compute of constants when it compiles.
_KEPT = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("after_all", "custom_call", "optimization_barrier", "partition_id"),
        *("replica_id", "rng", "rng_bit_generator"),
    )
)
_MAX_DEPTH = 16  # of an expression of constants
# They call a function with their operands.
_CALLS = (
    *("jit", "pjit", "closed_call", "core_call", "custom_jvp_call"),
    *("custom_vjp_call", "checkpoint"),
)


class _Thread(threading.local):
    """The types of the operands of the innermost call, and what makes them."""

    operands: Sequence[tuple[ir.Type, Source]] = ()


_thread = _Thread()


def source(ctx: LoweringRuleContext, value: ir.Value) -> Source:
    """What makes an operand; None if XLA has to compute it, or it is unknown.

    A pad may be in a function, as that of `jnp.pad` is, or transposed.
    """
    return _Finder(ctx).source(value, _argument, _MAX_DEPTH)


def are_constants(ctx: LoweringRuleContext, values: Sequence[ir.Value]) -> bool:
    """Whether XLA knows all of them when it compiles."""
    return all(source(ctx, value) == "constant" for value in values)


def _argument(argument: ir.BlockArgument) -> Source:
    """What the innermost call was given, if it is that call's function."""
    block, operands = argument.owner, _thread.operands
    if block.owner.operation.name != "func.func":  # a loop or a branch
        return None
    # Tokens and sizes come first.
    place = argument.arg_number - len(block.arguments)
    if -place > len(operands):
        return None
    type_, found = operands[place]
    return found if type_ == argument.type else None


class _Finder:
    def __init__(self, ctx: LoweringRuleContext) -> None:
        self._ctx = ctx

    def source(
        self, value: ir.Value, arguments: _Arguments, depth: int
    ) -> Source:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return arguments(ir.BlockArgument(value))
        operation = owner.opview.operation
        operands, name = operation.operands, operation.name

        def of(operand: ir.Value) -> Source:
            return self.source(operand, arguments, depth - 1)

        if name in ("func.call", "call"):
            return self._of_result(operation, value, of)
        if not name.startswith("stablehlo.") or name in _KEPT:
            return None
        if operation.regions or depth < 1:
            return None
        if all(of(x) == "constant" for x in operands):
            return "constant"
        if name == "stablehlo.pad":
            return _pad(operation)
        found = of(operands[0]) if operands else None
        if not isinstance(found, Pad):
            return None
        if name == "stablehlo.transpose":
            order = operation.attributes["permutation"]
            return found.transposed(tuple(map(int, order)))
        is_same = operands[0].type == value.type
        return found if name == "stablehlo.convert" and is_same else None

    def _of_result(
        self,
        call: ir.Operation,
        value: ir.Value,
        of: Callable[[ir.Value], Source],
    ) -> Source:
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        function = self._ctx.module_context.symbol_table[callee]
        (block,) = function.regions[0].blocks
        *_, end = block.operations
        place = ir.OpResult(value).result_number
        return self.source(
            end.operands[place],
            lambda argument: of(call.operands[argument.arg_number]),
            _MAX_DEPTH,
        )


def _pad(operation: ir.Operation) -> Pad:
    ends = (
        tuple(map(int, operation.attributes[which]))
        for which in (
            "edge_padding_low",
            "edge_padding_high",
            "interior_padding",
        )
    )
    shape = ir.RankedTensorType(operation.operands[0].type).shape
    return Pad(tuple(shape), *ends)


class _Lowering:
    """JAX's own lowering of a call, which tells what its operands are."""

    def __init__(self, own: LoweringRule) -> None:
        self._own = own

    def __call__(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Sequence[ir.Value]:
        if not _setting.current().rules:
            return self._own(ctx, *operands, **parameters)
        before, sources = _thread.operands, [source(ctx, x) for x in operands]
        types = (x.type for x in operands)
        _thread.operands = list(zip(types, sources, strict=True))
        # A function that is called elsewhere too is lowered once more.
        own: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if any(sources):
            own = _jax.own_caches(ctx, f"{sources}")
        try:
            with own:
                return self._own(ctx, *operands, **parameters)
        finally:
            _thread.operands = before


def install() -> None:
    """Lets calls tell what their operands are; a changed JAX has others."""
    for name in _CALLS:
        with contextlib.suppress(_jax.ChangedJaxError):
            primitive = _jax.primitive(name)
            own = _jax.own_lowering(primitive)
            if not isinstance(own, _Lowering):
                lowering = _Lowering(own)
                mlir.register_lowering(
                    *(primitive, lowering, "cpu"), cacheable=False
                )
