"""Handlers that work along any one axis, in place of JAX's own primitives.

Such a handler takes one array and an attribute `axis`. Its result has the
array's axes, or all of them but that one.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit.library import registration
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES


def lower(
    target: str, ctx: Any, x: Any, *, axis: int, **attributes: Any
) -> Any:
    """Lowers to the handler `target` of the kit's CPU library."""
    registration.register(KIT_LIBRARIES[0], target)
    build = jax.ffi.build_ffi_lowering_function(target)
    call = build(ctx, x, axis=np.int64(axis), **attributes)
    (x_aval,), (y_aval,) = ctx.avals_in, ctx.avals_out
    _annotate(call, len(x_aval.shape), len(y_aval.shape), axis)
    return call.results


def partitions(rank: int, axis: int) -> bool:
    """Whether sharded operands stay in place where XLA leaves them there.

    A custom call's batch axes come first. And of a vector XLA reduces each
    device's part, which is all there is to gather.
    """
    return rank > 1 and axis == rank - 1


def _annotate(call: Any, rank: int, result_rank: int, axis: int) -> None:
    """Says how the call shards: in parallel over all axes but its own."""
    if rank == 1:
        return
    operand = [f"d{i}" for i in range(rank)]
    kept = [d for i, d in enumerate(operand) if i != axis]
    result = operand if result_rank == rank else kept
    attributes = call.operation.attributes
    attributes["sdy.sharding_rule"] = _jax_hooks.sharding_rule(
        f"{' '.join(operand)} -> {' '.join(result)}",
        [operand[axis]],
        [x.type for x in call.operands],
        [x.type for x in call.results],
    )
    attributes["mhlo.frontend_attributes"] = _jax_hooks.string_attributes(
        {"num_batch_dims": str(axis)}
    )
