"""Lowers JAX's top_k to the kit's handler."""

from __future__ import annotations

from typing import Any

import numpy as np

from xla_ffi_kit.accelerate._rows import KEYS, RowsHandler

TARGET = "xla_ffi_kit.top_k"
PARAMETERS = (
    frozenset({"axis", "k"}),
    frozenset({"axis", "is_stable", "k"}),  # since jax 0.12
)


def covers(avals: Any, *, axis: int, k: Any, is_stable: bool = True) -> bool:
    """Whether the handler selects from an operand of this type as XLA does."""
    (x,) = avals
    if not isinstance(k, int) or k < 1 or x.shape[axis] < 2:
        return False  # symbolic, or XLA leaves it out
    return is_stable and str(x.dtype) in KEYS


def partitions(avals: Any, **_: Any) -> bool:
    """Whether sharded operands stay in place where XLA leaves them there."""
    return True  # any axis is made the last one


def lower(ctx: Any, x: Any, *, axis: int, k: int, **_: Any) -> Any:
    """Lowers a selection that the handler covers."""
    return _HANDLER.lower(ctx, x, axis=axis, k=k)


def _result_types(x: Any, *, k: int) -> Any:
    shape = (*x.shape[:-1], k)
    return x.update(shape=shape), x.update(shape=shape, dtype=np.dtype("int32"))


_HANDLER = RowsHandler(
    TARGET, result_types=_result_types, attributes=lambda k: {}
)
