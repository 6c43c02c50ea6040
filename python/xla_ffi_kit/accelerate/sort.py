"""Lowers JAX's sort to the kit's handler.

The derivatives, batching and sharding rules of `jax.lax.sort_p` stay JAX's:
they are applied before anything is lowered.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xla_ffi_kit.accelerate._rows import KEYS, WITHOUT_TIES, RowsHandler

TARGET = "xla_ffi_kit.sort"
PARAMETERS = (frozenset({"dimension", "is_stable", "num_keys"}),)

# As many integers XLA's own code sorts as soon as a call would: alone, and
# with other operands. It takes longer for floats.
_TINY = 32
_TINY_WITH_PAYLOAD = 5
_PAYLOAD = KEYS | {"complex64", "complex128"}


def covers(
    avals: Any, *, dimension: int, is_stable: bool, num_keys: int
) -> bool:
    """Whether the handler sorts operands of these types as XLA does."""
    if avals[0].shape[dimension] < 2:
        return False  # XLA leaves it out
    dtypes = [str(aval.dtype) for aval in avals]
    tiny = _TINY if len(avals) == 1 else _TINY_WITH_PAYLOAD
    if avals[0].size <= tiny and WITHOUT_TIES.issuperset(dtypes[:num_keys]):
        return False
    if not is_stable and not (
        num_keys == len(avals) and WITHOUT_TIES.issuperset(dtypes)
    ):
        return False  # in the order that XLA's own algorithm happens to give
    return KEYS.issuperset(dtypes[:num_keys]) and _PAYLOAD.issuperset(dtypes)


def partitions(avals: Any, **_: Any) -> bool:
    """Whether sharded operands stay in place where XLA leaves them there."""
    return True  # any axis is made the last one


def lower(
    ctx: Any, *operands: Any, dimension: int, num_keys: int, **_: Any
) -> Any:
    """Lowers a sort that the handler covers."""
    return _HANDLER.lower(ctx, *operands, axis=dimension, num_keys=num_keys)


_HANDLER = RowsHandler(
    TARGET,
    result_types=lambda *avals, num_keys: avals,
    attributes=lambda num_keys: {"num_keys": np.int64(num_keys)},
)
