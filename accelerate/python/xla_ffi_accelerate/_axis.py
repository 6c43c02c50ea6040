"""Handlers that work along any one axis, in place of JAX's own primitives.

Such a handler takes one array and an attribute `axis`. Its result has the
array's axes, or all of them but that one.
"""

from __future__ import annotations

import jax
import numpy as np
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate._rule import Lowered
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering


def lower(
    target: str,
    ctx: LoweringRuleContext,
    x: ir.Value,
    *,
    axis: int,
    **attributes: object,
) -> Lowered:
    """Lowers to the handler `target` of the kit's CPU library."""
    lowering.register(CPU_LIBRARY, target)
    build = jax.ffi.build_ffi_lowering_function(target)
    call = build(ctx, x, axis=np.int64(axis), **attributes)
    rank = len(lowering.shaped(ctx.avals_in)[0].shape)
    if rank > 1:  # in parallel over all axes but its own
        operand = [f"d{i}" for i in range(rank)]
        kept = [d for i, d in enumerate(operand) if i != axis]
        keeps_axis = len(ctx.avals_out[0].shape) == rank
        lowering.annotate(
            call,
            [operand],
            [operand if keeps_axis else kept],
            replicated=[operand[axis]],
            batch=axis,
        )
    results: Lowered = call.results
    return results


def partitions(rank: int, axis: int) -> bool:
    """Whether sharded operands stay in place where XLA leaves them there.

    A custom call's batch axes come first. And of a vector XLA reduces each
    device's part, which is all there is to gather.
    """
    return rank > 1 and axis == rank - 1
