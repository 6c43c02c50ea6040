"""Finds the pad that makes an operand, which XLA folds into its use."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from jax.interpreters.mlir import LoweringRuleContext, ir


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


def find(ctx: LoweringRuleContext, value: ir.Value) -> Pad | None:
    """The pad, also one in a function, as `jnp.pad` is, or transposed.

    A function is lowered before what calls it: of its own operands, there is
    nothing to know.
    """
    owner = value.owner
    if isinstance(owner, ir.Block):
        return None
    operation = owner.opview.operation
    operands, attributes = operation.operands, operation.attributes
    name = operation.name
    if name == "stablehlo.pad":
        ends = (
            tuple(map(int, attributes[which]))
            for which in (
                "edge_padding_low",
                "edge_padding_high",
                "interior_padding",
            )
        )
        return Pad(tuple(ir.RankedTensorType(operands[0].type).shape), *ends)
    if name == "stablehlo.transpose":
        found = find(ctx, operands[0])
        order = tuple(map(int, attributes["permutation"]))
        return found and found.transposed(order)
    if name == "stablehlo.convert" and operands[0].type == value.type:
        return find(ctx, operands[0])
    if name in ("func.call", "call"):
        callee = ir.FlatSymbolRefAttr(attributes["callee"]).value
        function = ctx.module_context.symbol_table[callee]
        (block,) = function.regions[0].blocks
        *_, end = block.operations
        place = ir.OpResult(value).result_number
        result = end.operands[place]
        if isinstance(result.owner, ir.Block):
            return find(ctx, operands[ir.BlockArgument(result).arg_number])
        return find(ctx, result)
    return None
