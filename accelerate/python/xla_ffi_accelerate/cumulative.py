"""Lowers JAX's cumulative operations to the kit's handler."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _axis, _dtypes, _jax_rules, _self_test
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result

# XLA has one fused loop for an axis that is no longer. From the front it does
# the work of each element's window anew, which costs little for a few elements.
_MAX_WINDOW = 16
_MIN_LENGTH = 5
_MIN_LENGTH_HALF = 8  # of f16 and bf16, which are rounded one by one
_MIN_SIZE = 1024
# Up to here a custom call costs more than XLA's own code for any axis, if it is
# in a loop that XLA compiles to one function.
_TINY = 128


class Cumulative:
    """The rule of one of `jax.lax.cumsum_p`, `cumprod_p`, `cummax_p`...

    A maximum or minimum that meets a NaN is one; its sign depends on the
    processor that XLA compiles for, and on the release. Floats are not summed
    and multiplied by this rule.
    """

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.cumulative"
    PARAMETERS = (frozenset({"axis", "reverse"}),)

    def __init__(self, op: Literal["max", "min", "product", "sum"]) -> None:
        self._op: Literal["max", "min", "product", "sum"] = op

    def primitive(self) -> Primitive:
        """Of JAX."""
        name = {"product": "cumprod", "sum": "cumsum"}.get(self._op)
        return _jax_rules.primitive(f"{name or 'cum' + self._op}_p")

    def covers(
        self, avals: Sequence[ShapedArray], *, axis: int, reverse: bool
    ) -> bool:
        """Whether the handler's results are those of XLA's code, and sooner."""
        (x,) = avals
        dtype = str(x.dtype)
        is_half = dtype in ("float16", "bfloat16")
        if math.prod(x.shape) <= _TINY:
            return False
        if x.shape[axis] <= _MAX_WINDOW and (
            reverse
            or x.shape[axis] < (_MIN_LENGTH_HALF if is_half else _MIN_LENGTH)
            or math.prod(x.shape) < _MIN_SIZE
        ):
            return False
        return self._has_dtype(dtype, reverse)

    def _has_dtype(self, dtype: str, reverse: bool) -> bool:
        if dtype in _dtypes.FLOATS:
            return self._op in ("max", "min")
        return dtype in (*_dtypes.SIGNED, *_dtypes.UNSIGNED)

    def partitions(
        self, avals: Sequence[ShapedArray], *, axis: int, **_: object
    ) -> bool:
        """Whether sharded operands stay in place."""
        return _axis.partitions(len(avals[0].shape), axis)

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
        return _axis.lower(
            self.TARGET,
            ctx,
            x,
            axis=axis,
            op=self._op,
            reverse=np.int64(reverse),
        )


class FloatCumulative(Cumulative):
    """The rule of sums and products of floats, in the order of XLA's own code.

    Not so from the end, where that code starts again for each element.
    """

    # Releases of jaxlib in which the order is a tree of blocks of 16.
    VERIFIED = frozenset({"0.8.1", "0.9.2", "0.10.2", "0.12.0.1"})

    def self_test(self) -> bool:
        """Whether XLA adds, or multiplies, in that order."""
        x = 1 + np.random.default_rng(0).standard_normal((2, 4500)) / 8
        function = {"sum": jax.lax.cumsum, "product": jax.lax.cumprod}[self._op]

        def along_lines(x: jax.Array) -> list[jax.Array]:
            return [
                function(x.astype(dtype)[:, :length], axis)
                for dtype, length in (
                    ("float32", 4500),
                    ("float32", 12),
                    ("bfloat16", 300),
                    ("float16", 300),
                    ("float64", 300),
                )
                for axis in (1, 0)
            ]

        return _self_test.same_bits(self, along_lines, x)

    def _has_dtype(self, dtype: str, reverse: bool) -> bool:
        return dtype in _dtypes.FLOATS and not reverse
