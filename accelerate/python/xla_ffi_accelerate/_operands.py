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
_MOST = 32  # operations that are looked at for an operand
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
    return _Finder(ctx).source(value, _argument)


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
    """Looks for what makes one operand."""

    def __init__(self, ctx: LoweringRuleContext) -> None:
        self._ctx = ctx
        self._left = _MOST

    def source(self, value: ir.Value, arguments: _Arguments) -> Source:
        owner = value.owner
        if isinstance(owner, ir.Block):
            return arguments(ir.BlockArgument(value))
        self._left -= 1
        operation = owner.opview.operation
        name = operation.name
        if self._left < 0:
            return None
        if name in ("func.call", "call"):
            return self._of_result(operation, value, arguments)
        is_folded = name.startswith("stablehlo.") and name not in _KEPT
        if not is_folded or len(operation.regions):
            return None
        operands = operation.operands
        first = self.source(operands[0], arguments) if operands else "constant"
        if first == "constant" and all(
            self.source(x, arguments) == "constant" for x in operands[1:]
        ):
            return "constant"
        if name == "stablehlo.pad":
            return _pad(operation)
        if not isinstance(first, Pad):
            return None
        if name == "stablehlo.transpose":
            order = operation.attributes["permutation"]
            return first.transposed(tuple(map(int, order)))
        is_same = operands[0].type == value.type
        return first if name == "stablehlo.convert" and is_same else None

    def _of_result(
        self, call: ir.Operation, value: ir.Value, arguments: _Arguments
    ) -> Source:
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        function = self._ctx.module_context.symbol_table[callee]
        (block,) = function.regions[0].blocks
        *_, end = block.operations
        place = ir.OpResult(value).result_number
        return self.source(
            end.operands[place],
            lambda x: self.source(call.operands[x.arg_number], arguments),
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
                # For every platform: of two rules, a program for several
                # platforms would have both, and so has each function in it.
                lowering = _Lowering(own)
                mlir.register_lowering(primitive, lowering, cacheable=False)
