"""Calls the package's handlers, in the functions that rules lower to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

# int: s64. tuple: an array of s64.
Attribute: TypeAlias = int | str | np.bool_ | tuple[int, ...]
# Shape and dtype.
ResultType: TypeAlias = tuple[Sequence[int], object]

_call_p = Primitive("xla_ffi_accelerate_call")
_call_p.multiple_results = True


def call(
    target: str,
    results: Sequence[ResultType],
    *operands: jax.Array,
    batch: int = 0,
    row_batch: int = 0,
    **attributes: Attribute,
) -> list[jax.Array]:
    """Calls a handler.

    It is not an `FfiOp`, because the number of operands varies, results depend
    on parameters that the handler does not get, and nothing is traced, mapped
    or differentiated at this stage.

    Args:
      target: the handler, of the package's library.
      results: their types.
      *operands: arrays.
      batch: how many of the first axes shard together.
      row_batch: the same; but the other axis, which is gathered, is sharded
        again in the results, as XLA's own sort does.
      **attributes: the handler's.
    """
    called: list[jax.Array] = _call_p.bind(
        *operands,
        target=target,
        results=tuple((tuple(s), np.dtype(d)) for s, d in results),  # type: ignore[call-overload]
        batch=batch,
        row_batch=row_batch,
        attributes=tuple(sorted(attributes.items())),
    )
    return called


def _types(
    *_: ShapedArray,
    results: Sequence[tuple[tuple[int, ...], np.dtype[np.generic]]],
    **__: object,
) -> list[ShapedArray]:
    return [ShapedArray(shape, dtype) for shape, dtype in results]


def _lower(
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    target: str,
    batch: int,
    row_batch: int,
    attributes: Sequence[tuple[str, Attribute]],
    **_: object,
) -> Sequence[ir.Value]:
    lowering.register(CPU_LIBRARY, target)
    build = jax.ffi.build_ffi_lowering_function(target)
    called = build(ctx, *operands, **{n: _typed(a) for n, a in attributes})
    shapes = [
        [a.shape for a in lowering.shaped(avals)]
        for avals in (ctx.avals_in, ctx.avals_out)
    ]
    lead = lowering.divided(ctx, shapes[0][0][: batch or row_batch])
    if row_batch and lead:
        count = len(lead)
        names = [[_row(shape, count) for shape in side] for side in shapes]
        rows = {n: None for side in names for x in side for n in x[count:]}
        lowering.annotate(called, *names, replicated=list(rows), batch=count)
    elif lead:
        lowering.annotate_batch(called, lead, *shapes)
    values: Sequence[ir.Value] = called.results
    return values


def _row(shape: tuple[int, ...], batch: int) -> list[str]:
    """Names of axes; last ones of the same length share theirs."""
    return [f"b{i}" for i in range(batch)] + [f"n{n}" for n in shape[batch:]]


def _typed(value: Attribute) -> object:
    if isinstance(value, tuple):
        return np.array(value, np.int64)
    return np.int64(value) if isinstance(value, int) else value


_call_p.def_abstract_eval(_types)
mlir.register_lowering(_call_p, _lower, platform="cpu")
