"""Lowers JAX's sort to the kit's handler.

The derivatives, batching and sharding rules of `jax.lax.sort_p` stay JAX's:
they are applied before anything is lowered.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _dtypes, _jax_rules
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rows import KEEPS_BF16_NANS, KEYS, RowsHandler
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_kit import lowering

# Break-even numbers of elements: up to here a custom call costs more than XLA's
# own sort, if the sort is in a loop that XLA compiles to one function.
_TINY_INTEGERS = 32
_TINY_FLOATS = 8
_TINY_WITH_PAYLOAD = 16
_PAYLOAD = KEYS.union(_dtypes.COMPLEX)


class Sort:
    """The rule of `jax.lax.sort_p`.

    The order is stable, which is one that `is_stable=False` allows.
    """

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.sort"
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
        num_keys: int,
        **_: object,
    ) -> bool:
        """Whether the handler sorts operands of these types as XLA does."""
        if avals[0].shape[dimension] < 2:
            return False  # XLA leaves it out
        dtypes = [str(aval.dtype) for aval in avals]
        keys = dtypes[:num_keys]
        tiny = _TINY_FLOATS if keys[0] in _dtypes.FLOATS else _TINY_INTEGERS
        if len(avals) > 1:
            tiny = _TINY_WITH_PAYLOAD
        if avals[0].size <= tiny:
            return False
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
        dtypes = [str(a.dtype) for a in lowering.shaped(ctx.avals_in)]
        if not KEEPS_BF16_NANS or "bfloat16" not in dtypes:
            return self._handler.lower(
                ctx, *operands, axis=dimension, num_keys=num_keys
            )
        call = functools.partial(
            self._call_without_bf16, axis=dimension, num_keys=num_keys
        )
        rule = mlir.lower_fun(call, multiple_results=True)
        lowered: Lowered = rule(ctx, *operands)
        return lowered

    def _call_without_bf16(
        self, *operands: jax.Array, axis: int, num_keys: int
    ) -> list[jax.Array]:
        """bf16 moved as integers, and compared as f32: no bit of it changes."""
        keys = map(_widened, operands[:num_keys])
        payload = map(_bits, operands[num_keys:])
        results = self._handler.call(
            *keys, *payload, axis=axis, num_keys=num_keys
        )
        return [
            y if y.dtype == x.dtype else _narrowed(y)
            for x, y in zip(operands, results, strict=True)
        ]


_cast = jax.lax.bitcast_convert_type


def _bits(x: jax.Array) -> jax.Array:
    return _cast(x, np.uint16) if x.dtype == jnp.bfloat16 else x


def _widened(x: jax.Array) -> jax.Array:
    """A bf16 key as the f32 of the same value, NaNs with the same bits."""
    if x.dtype != jnp.bfloat16:
        return x
    upper = jax.lax.convert_element_type(_bits(x), np.uint32)
    sixteen = jax.lax.full_like(upper, 16)
    return _cast(jax.lax.shift_left(upper, sixteen), np.float32)


def _narrowed(x: jax.Array) -> jax.Array:
    """The bf16 of what `_bits` or `_widened` has made of it."""
    if x.dtype == np.float32:
        bits = _cast(x, np.uint32)
        sixteen = jax.lax.full_like(bits, 16)
        upper = jax.lax.shift_right_logical(bits, sixteen)
        x = jax.lax.convert_element_type(upper, np.uint16)
    return _cast(x, jnp.bfloat16)
