"""Lowers JAX's top_k to the kit's handler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax_rules
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rows import KEYS, RowsHandler
from xla_ffi_accelerate._rule import Lowered, Result

# Break-even number of elements, of all rows: up to here a custom call costs
# more than XLA's own code, in a loop that XLA compiles to one function.
_TINY = 16
# Of f32 XLA does not sort, but has a selection of its own, which is as fast for
# fewer elements unless many of them are selected.
_MIN_SIZE_F32 = 8192
_MIN_K_F32 = 256


class TopK:
    """The rule of `jax.lax.top_k_p`.

    Equal elements come by their index, which is one of the orders that
    `is_stable=False` allows.
    """

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.top_k"
    PARAMETERS = (
        frozenset({"axis", "k"}),
        frozenset({"axis", "is_stable", "k"}),  # since jax 0.12
    )

    def __init__(self) -> None:
        self._handler = RowsHandler(
            self.TARGET, result_types=_result_types, attributes=lambda k: {}
        )

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive("top_k_p")

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        axis: int,
        k: object,
        **_: object,
    ) -> bool:
        """Whether the handler selects as XLA does, and sooner."""
        (x,) = avals
        if not isinstance(k, int) or k < 1 or x.shape[axis] < 2:
            return False  # symbolic, or XLA leaves it out
        if x.size <= _TINY:
            return False
        if str(x.dtype) == "float32" and (
            x.size < _MIN_SIZE_F32 and k < _MIN_K_F32
        ):
            return False
        # XLA orders the NaNs of bf16 by all of their bits, or only by the sign,
        # which depends on the release, the processor and the shape.
        return str(x.dtype) in KEYS and str(x.dtype) != "bfloat16"

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """Whether sharded operands stay in place where XLA leaves them."""
        return True  # any axis is made the last one

    def lower(
        self,
        ctx: LoweringRuleContext,
        x: ir.Value,
        *,
        axis: int,
        k: int,
        **_: object,
    ) -> Lowered:
        """Lowers a selection that the handler covers."""
        return self._handler.lower(ctx, x, axis=axis, k=k)


def _result_types(x: ShapedArray, *, k: int) -> tuple[ShapedArray, ShapedArray]:
    shape = (*x.shape[:-1], k)
    return x.update(shape=shape), x.update(shape=shape, dtype=np.dtype("int32"))
