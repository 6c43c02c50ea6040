"""Lowers JAX's cumulative log-sum-exp to the kit's handler."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax_rules
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rows import RowsHandler
from xla_ffi_accelerate._rule import Lowered, Result

# Break-even length: XLA does the work of each element's window anew.
_MIN_LENGTH = 4


class Cumlogsumexp:
    """The rule of `jax.lax.cumlogsumexp_p`.

    Close: the sums are of double precision, where XLA takes a logarithm and an
    exponential for each addition. JAX's derivatives do not use the primitive.
    """

    RESULT: Result = "close"
    TARGET = "xla_ffi_accelerate.cumlogsumexp"
    PARAMETERS = (frozenset({"axis", "reverse"}),)

    def __init__(self) -> None:
        self._handler = RowsHandler(
            self.TARGET,
            result_types=lambda x, *, reverse: (x,),
            attributes=lambda reverse: {"reverse": np.bool_(reverse)},
        )

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive("cumlogsumexp_p")

    def covers(
        self, avals: Sequence[ShapedArray], *, axis: int, **_: object
    ) -> bool:
        """Whether the handler has the dtype, and is faster."""
        (x,) = avals
        is_float = str(x.dtype) in ("float32", "float64")
        return is_float and x.shape[axis] >= _MIN_LENGTH

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """Whether sharded operands stay in place where XLA leaves them."""
        return len(avals[0].shape) > 1

    def lower(
        self,
        ctx: LoweringRuleContext,
        x: ir.Value,
        *,
        axis: int,
        reverse: bool,
        **_: object,
    ) -> Lowered:
        """Lowers an operation that the handler covers."""
        return self._handler.lower(ctx, x, axis=axis, reverse=reverse)
