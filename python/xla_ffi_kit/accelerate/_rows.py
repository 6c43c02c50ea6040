"""Handlers of whole rows, in place of JAX's own primitives.

Such a handler takes the last axis of its operands, which have one shape, and
any number of rows of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit.library import registration
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES

WITHOUT_TIES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)
FLOATS = frozenset("float16 bfloat16 float32 float64".split())
KEYS = WITHOUT_TIES | FLOATS - {"bfloat16"}
# The kernels do with the NaNs of bf16 what XLA does up to jax 0.10: only the
# sign is kept. In jax 0.12 XLA keeps the other bits too (both ran).
if jax.__version_info__ < (0, 11):
    KEYS |= {"bfloat16"}


class RowsHandler:
    """Lowers to the handler `target`, along any axis.

    Args:
      target: of the kit's CPU library.
      result_types: the abstract values of the results, from those of the
        operands and the parameters; it must keep their sharding.
      attributes: the handler's attributes, from the parameters.
    """

    def __init__(
        self,
        target: str,
        result_types: Callable[..., Any],
        attributes: Callable[..., dict[str, Any]],
    ) -> None:
        self._target = target
        self._attributes = attributes
        # Of the last axis alone, for programs that transpose around it.
        self._rows_p = Primitive(target.replace(".", "_") + "_rows")
        self._rows_p.multiple_results = True
        self._rows_p.def_abstract_eval(result_types)
        mlir.register_lowering(self._rows_p, self._lower_rows, platform="cpu")

    def lower(
        self, ctx: Any, *operands: Any, axis: int, **parameters: Any
    ) -> Any:
        """Lowers a call on rows that lie along `axis`."""
        rank = len(ctx.avals_in[0].shape)
        if axis == rank - 1:
            return self._lower_rows(ctx, *operands, **parameters)

        def call(*arrays: jax.Array) -> Any:
            order = [i for i in range(rank) if i != axis] + [axis]
            back = np.argsort(order)
            rows = [jax.lax.transpose(x, order) for x in arrays]
            results = self._rows_p.bind(*rows, **parameters)
            return [jax.lax.transpose(x, back) for x in results]

        return mlir.lower_fun(call, multiple_results=True)(ctx, *operands)

    def _lower_rows(self, ctx: Any, *operands: Any, **parameters: Any) -> Any:
        registration.register(KIT_LIBRARIES[0], self._target)
        build = jax.ffi.build_ffi_lowering_function(self._target)
        call = build(ctx, *operands, **self._attributes(**parameters))
        _annotate(
            call,
            [aval.shape for aval in ctx.avals_in],
            [aval.shape for aval in ctx.avals_out],
        )
        return call.results


def _annotate(call: Any, operands: Any, results: Any) -> None:
    """Says how the call shards: as XLA's own sort does.

    Rows stay where they are. A sharded last axis is gathered; the result is
    sharded like it again, unless there is one row only.
    """
    rank = len(operands[0])
    if rank == 1:
        return
    rows = [f"b{i}" for i in range(rank - 1)]
    replicated = dict.fromkeys(f"n{s[-1]}" for s in (*operands, *results))

    def factors(shapes: Any) -> str:
        return ", ".join(" ".join([*rows, f"n{s[-1]}"]) for s in shapes)

    attributes = call.operation.attributes
    attributes["sdy.sharding_rule"] = _jax_hooks.sharding_rule(
        f"{factors(operands)} -> {factors(results)}",
        list(replicated),
        [x.type for x in call.operands],
        [x.type for x in call.results],
    )
    attributes["mhlo.frontend_attributes"] = _jax_hooks.string_attributes(
        {"num_batch_dims": str(rank - 1)}
    )
