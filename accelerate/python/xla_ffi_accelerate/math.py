"""Lowers JAX's elementwise functions to plain HLO that XLA vectorizes.

XLA's own code calls the C library's function for each element. The results are
close: those here are the nearest number but for 1 in some thousands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import (
    _elementary,
    _jax_rules,
    _plain,
    _trigonometric,
)
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_accelerate._trigonometric import Trigonometric
from xla_ffi_kit import lowering

_DTYPES = ("float32", "bfloat16", "float16")

# From 0.12 on XLA vectorizes sine, cosine and tangent itself where they are
# reduced, though not elsewhere; a rule does not see where they are.
_XLA_REDUCES_SINES = jax.__version_info__ >= (0, 11)


class _Rule:
    """What the rules have in common.

    Args:
      primitive: of `jax.lax`.
      min_size: break-even size. XLA runs programs in the caller's thread if
        it counts few operations in them, and counts one for the C library's
        function; below this size, starting its threads takes longer.
    """

    RESULT: Result = "close"
    TARGET = None
    PARAMETERS = (frozenset[str](), frozenset({"accuracy"}))

    def __init__(self, primitive: str, min_size: int) -> None:
        self._primitive = primitive
        self._min_size = min_size

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive(self._primitive)

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        accuracy: object = None,
        **_: object,
    ) -> bool:
        """Whether the operands are floats of at most 32 bits, and enough."""
        shape = avals[0].shape
        return (
            accuracy is None
            and all(str(aval.dtype) in _DTYPES for aval in avals)
            # XLA makes roots and products of scalar exponents such as 0.5.
            and all(aval.shape == shape for aval in avals)
            and (
                not lowering.is_static(shape)
                or math.prod(shape) >= self._min_size
            )
        )

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """Yes: as any elementwise operation."""
        return True


class Elementary(_Rule):
    """The rule of a function without a branch."""

    def __init__(
        self,
        primitive: str,
        function: Callable[..., jax.Array],
        min_size: int,
    ) -> None:
        super().__init__(primitive, min_size)
        self._function = function

    def lower(
        self, ctx: LoweringRuleContext, *operands: ir.Value, **_: object
    ) -> Lowered:
        """Lowers to plain HLO."""
        return _lower(self._function, ctx, *operands)


class Sine(_Rule):
    """The rule of `sin_p`, `cos_p` or `tan_p`."""

    def __init__(
        self, primitive: str, function: Trigonometric, min_size: int
    ) -> None:
        super().__init__(primitive, min_size)
        self._functions = function

    def covers(
        self, avals: Sequence[ShapedArray], **parameters: object
    ) -> bool:
        """Likewise, where XLA never vectorizes the function itself."""
        return not _XLA_REDUCES_SINES and super().covers(avals, **parameters)

    def lower(
        self, ctx: LoweringRuleContext, x: ir.Value, **_: object
    ) -> Lowered:
        """Lowers to plain HLO."""
        (aval,) = lowering.shaped(ctx.avals_in)
        # Devices that share an array would have to agree on a branch.
        branches = lowering.is_static(
            aval.shape
        ) and not lowering.xla_may_partition(ctx)
        straight, branching = self._functions
        return _lower(branching if branches else straight, ctx, x)


def _lower(
    function: Callable[..., jax.Array],
    ctx: LoweringRuleContext,
    *operands: ir.Value,
) -> Lowered:
    def rounded(*arrays: jax.Array) -> list[jax.Array]:
        wide = [lax.convert_element_type(x, jnp.float32) for x in arrays]
        return [lax.convert_element_type(function(*wide), arrays[0].dtype)]

    with jax.enable_x64(True):
        return _plain.lower(rounded, ctx, *operands)


RULES = (
    Elementary("acos_p", _elementary.acos, 4096),
    Elementary("asin_p", _elementary.asin, 4096),
    Elementary("atan2_p", _elementary.atan2, 16384),
    Elementary("cbrt_p", _elementary.cbrt, 32768),
    Elementary("pow_p", _elementary.pow, 32768),
    Sine("cos_p", _trigonometric.COS, 65536),
    Sine("sin_p", _trigonometric.SIN, 65536),
    Sine("tan_p", _trigonometric.TAN, 65536),
)
