"""Lowers JAX's sort to the kit's handler.

The derivatives, batching and sharding rules of `jax.lax.sort_p` stay JAX's:
they are applied before anything is lowered.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_kit import _dtypes
from xla_ffi_kit._jax_hooks import Primitive
from xla_ffi_kit.accelerate import _jax_rules
from xla_ffi_kit.accelerate._rows import KEYS, RowsHandler
from xla_ffi_kit.accelerate._rule import Lowered, Result

# Break-even length: up to here XLA's own sort of integers, alone and with other
# operands, is as fast as a custom call. It takes longer for floats.
_TINY = 32
_TINY_WITH_PAYLOAD = 5
_PAYLOAD = KEYS.union(_dtypes.COMPLEX)


class Sort:
    """The rule of `jax.lax.sort_p`."""

    RESULT: Result = "exact"
    TARGET = "xla_ffi_kit.sort"
    PARAMETERS = (frozenset({"dimension", "is_stable", "num_keys"}),)

    def __init__(self) -> None:
        self._handler = RowsHandler(
            self.TARGET,
            result_types=lambda *avals, num_keys: avals,
            attributes=lambda num_keys: {"num_keys": np.int64(num_keys)},
        )

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive("sort_p")

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        dimension: int,
        is_stable: bool,
        num_keys: int,
    ) -> bool:
        """Whether the handler sorts operands of these types as XLA does."""
        if avals[0].shape[dimension] < 2:
            return False  # XLA leaves it out
        dtypes = [str(aval.dtype) for aval in avals]
        keys = dtypes[:num_keys]
        without_ties = frozenset(_dtypes.WITHOUT_TIES)
        tiny = _TINY if len(avals) == 1 else _TINY_WITH_PAYLOAD
        if avals[0].size <= tiny and without_ties.issuperset(keys):
            return False
        are_keys = num_keys == len(avals) and without_ties.issuperset(dtypes)
        if not is_stable and not are_keys:
            return False  # in the order that XLA's own algorithm gives
        return KEYS.issuperset(keys) and _PAYLOAD.issuperset(dtypes)

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """Whether sharded operands stay in place where XLA leaves them."""
        return True  # any axis is made the last one

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        dimension: int,
        num_keys: int,
        **_: object,
    ) -> Lowered:
        """Lowers a sort that the handler covers."""
        return self._handler.lower(
            ctx, *operands, axis=dimension, num_keys=num_keys
        )
