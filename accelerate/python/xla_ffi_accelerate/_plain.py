"""Lowering to a function of JAX: calls of handlers, and what is around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate._rule import Lowered
from xla_ffi_kit import lowering


def lower(
    function: Callable[..., Sequence[jax.Array]],
    ctx: LoweringRuleContext,
    *operands: ir.Value,
) -> Lowered:
    """Lowers to what `function` does, of arrays that belong to no mesh."""
    avals = lowering.shaped(ctx.avals_in)
    plain = [ShapedArray(aval.shape, aval.dtype) for aval in avals]
    lowered: Lowered = mlir.lower_fun(function, multiple_results=True)(
        ctx.replace(avals_in=plain), *operands
    )
    return lowered
