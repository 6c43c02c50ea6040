"""Lowers JAX's argmax and argmin to the kit's handler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _axis, _dtypes, _jax_rules
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result

_INDICES = ("int32", "int64", "uint32", "uint64")
# XLA unrolls the search of a shorter axis, and then searches as fast as it can
# read; what computes the elements is fused into it.
_MIN_LENGTH = 32
_MIN_LENGTH_BF16 = 16
# Break-even numbers of elements, in all lines: for fewer a custom call costs
# more than the search, if it is in a loop that XLA compiles to one function.
_MIN_SIZE_FLOATS = 64
_MIN_SIZE_INTEGERS = 256


class Argmax:
    """The rule of `jax.lax.argmax_p`, or of `argmin_p`."""

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.argmax"
    PARAMETERS = (frozenset({"axes", "index_dtype"}),)

    def __init__(self, of: Literal["max", "min"]) -> None:
        self._of = of

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive(f"arg{self._of}_p")

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        axes: Sequence[int],
        index_dtype: np.dtype[np.generic],
    ) -> bool:
        """Whether the handler finds what XLA's own code finds, and sooner."""
        (x,) = avals
        (axis,) = axes
        n = x.shape[axis]
        is_bf16 = str(x.dtype) == "bfloat16"
        is_float = str(x.dtype) in _dtypes.FLOATS
        if x.size < (_MIN_SIZE_FLOATS if is_float else _MIN_SIZE_INTEGERS):
            return False
        if not (_MIN_LENGTH_BF16 if is_bf16 else _MIN_LENGTH) <= n <= 2**31:
            return False
        indices = str(np.dtype(index_dtype))
        return indices in _INDICES and str(x.dtype) in _dtypes.REAL

    def partitions(
        self, avals: Sequence[ShapedArray], *, axes: Sequence[int], **_: object
    ) -> bool:
        """Whether sharded operands stay in place."""
        return _axis.partitions(len(avals[0].shape), axes[0])

    def lower(
        self,
        ctx: LoweringRuleContext,
        x: ir.Value,
        *,
        axes: Sequence[int],
        **_: object,
    ) -> Lowered:
        """Lowers a search that the handler covers."""
        (axis,) = axes
        return _axis.lower(self.TARGET, ctx, x, axis=axis, of=self._of)
