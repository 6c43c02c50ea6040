"""Lowers JAX's sort to the kit's handler.

The derivatives, batching and sharding rules of `jax.lax.sort_p` stay JAX's:
they are applied before anything is lowered.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir

from xla_ffi_kit import _jax_hooks, _registration
from xla_ffi_kit._library import KIT_LIBRARIES

TARGET = "xla_ffi_kit.sort"
PARAMETERS = frozenset({"dimension", "is_stable", "num_keys"})

_WITHOUT_TIES = frozenset(
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64".split()
)
_KEYS = _WITHOUT_TIES | {"float16", "bfloat16", "float32", "float64"}
_PAYLOAD = _KEYS | {"complex64", "complex128"}


def covers(
    avals: Any, *, dimension: int, is_stable: bool, num_keys: int
) -> bool:
    """Whether the handler sorts operands of these types as XLA does."""
    if avals[0].shape[dimension] < 2:
        return False  # XLA leaves it out
    dtypes = [str(aval.dtype) for aval in avals]
    if not is_stable and not (
        num_keys == len(avals) and _WITHOUT_TIES.issuperset(dtypes)
    ):
        return False  # in the order that XLA's own algorithm happens to give
    return _KEYS.issuperset(dtypes[:num_keys]) and _PAYLOAD.issuperset(dtypes)


def lower(
    ctx: Any, *operands: Any, dimension: int, num_keys: int, **_: Any
) -> Any:
    """Lowers a sort that the handler covers."""
    rank = len(ctx.avals_in[0].shape)
    if dimension == rank - 1:
        return _lower_rows(ctx, *operands, num_keys=num_keys)

    def sort(*arrays: jax.Array) -> Any:
        order = [i for i in range(rank) if i != dimension] + [dimension]
        back = np.argsort(order)
        rows = [jax.lax.transpose(x, order) for x in arrays]
        results = _sort_rows_p.bind(*rows, num_keys=num_keys)
        return [jax.lax.transpose(x, back) for x in results]

    return mlir.lower_fun(sort, multiple_results=True)(ctx, *operands)


def _lower_rows(ctx: Any, *operands: Any, num_keys: int) -> Any:
    _registration.register(KIT_LIBRARIES[0], TARGET)
    build = jax.ffi.build_ffi_lowering_function(TARGET)
    call = build(ctx, *operands, num_keys=np.int64(num_keys))
    _annotate(call, len(ctx.avals_in[0].shape))
    return call.results


def _annotate(call: Any, rank: int) -> None:
    """Says how a sort of the last axis shards: as XLA's own sort does.

    Rows stay where they are. A sharded last axis is gathered; the result is
    sharded like it again, unless there is one row only.
    """
    if rank == 1:
        return
    axes = [f"b{i}" for i in range(rank - 1)] + ["n"]
    all_axes = ", ".join([" ".join(axes)] * len(call.results))
    attributes = call.operation.attributes
    attributes["sdy.sharding_rule"] = _jax_hooks.sharding_rule(
        f"{all_axes} -> {all_axes}",
        ["n"],
        [x.type for x in call.operands],
        [x.type for x in call.results],
    )
    attributes["mhlo.frontend_attributes"] = _jax_hooks.string_attributes(
        {"num_batch_dims": str(rank - 1)}
    )


# A sort of the last axis alone, for programs that transpose around it.
_sort_rows_p = Primitive("xla_ffi_kit_sort_rows")
_sort_rows_p.multiple_results = True
_sort_rows_p.def_abstract_eval(lambda *avals, num_keys: avals)
mlir.register_lowering(_sort_rows_p, _lower_rows, platform="cpu")
