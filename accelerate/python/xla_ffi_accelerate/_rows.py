"""Handlers of whole rows, in place of JAX's own primitives.

Such a handler takes the last axis of its operands, which have one shape, and
any number of rows of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _dtypes, _jax
from xla_ffi_accelerate._rule import Lowered
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

KEYS = frozenset(_dtypes.REAL)
# The kernels do with the NaNs of bf16 what XLA's sorts do up to jax 0.10: keep
# only the sign. In jax 0.12 they keep the other bits too (verified on both).
KEEPS_BF16_NANS = jax.__version_info__ >= (0, 11)


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
        result_types: Callable[..., Sequence[ShapedArray]],
        attributes: Callable[..., Mapping[str, object]],
    ) -> None:
        self._target = target
        self._attributes = attributes
        # Of only the last axis, for programs that transpose around it.
        self._rows_p = _jax.Primitive(target.replace(".", "_") + "_rows")
        self._rows_p.multiple_results = True
        self._rows_p.def_abstract_eval(result_types)
        mlir.register_lowering(self._rows_p, self._lower_rows, platform="cpu")

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        axis: int,
        **parameters: object,
    ) -> Lowered:
        """Lowers a call on rows that lie along `axis`."""
        rank = len(lowering.shaped(ctx.avals_in)[0].shape)
        if axis == rank - 1:
            return self._lower_rows(ctx, *operands, **parameters)
        call = functools.partial(self.call, axis=axis, **parameters)
        lowered: Lowered = mlir.lower_fun(call, multiple_results=True)(
            ctx, *operands
        )
        return lowered

    def call(
        self, *arrays: jax.Array, axis: int, **parameters: object
    ) -> list[jax.Array]:
        """The same, for `mlir.lower_fun`."""
        rank = arrays[0].ndim
        order = [i for i in range(rank) if i != axis] + [axis]
        back = np.argsort(order)
        rows = [jax.lax.transpose(x, order) for x in arrays]
        results = self._rows_p.bind(*rows, **parameters)
        return [jax.lax.transpose(x, back) for x in results]

    def _lower_rows(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Lowered:
        lowering.register(CPU_LIBRARY, self._target)
        build = jax.ffi.build_ffi_lowering_function(self._target)
        call = build(ctx, *operands, **self._attributes(**parameters))
        # It shards as XLA's own sort does: rows stay where they are, and a
        # sharded last axis is gathered. The result is sharded like it again,
        # unless there is one row only.
        batch = len(lowering.shaped(ctx.avals_in)[0].shape) - 1
        names = [
            [
                [*(f"b{i}" for i in range(batch)), f"n{aval.shape[-1]}"]
                for aval in lowering.shaped(avals)
            ]
            for avals in (ctx.avals_in, ctx.avals_out)
        ]
        if batch:
            rows = {axes[-1]: None for values in names for axes in values}
            lowering.annotate(call, *names, replicated=list(rows), batch=batch)
        results: Lowered = call.results
        return results
