"""Lowers JAX's default random number generator, Threefry-2x32.

All of `jax.random` draws its bits by `random_bits_p`, and makes keys by
`threefry2x32_p`, of which JAX has the former made too. On the CPU JAX lowers
the hash to a loop over its rounds, where other platforms get them unrolled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax_rules, _plain
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

# The dtype of Threefry's keys, as JAX writes it.
_THREEFRY = "key<fry>"
# A key's counters have 32 bits if they are not partitionable. From this many
# words on JAX makes blocks of them, each with a key of its own.
_MAX_WORDS = 2**32 - 2
# Break-even size: up to here the unrolled hash, which fuses with what is around
# it, is faster than a call. From 9 hashes on XLA starts threads for them.
_TINY = 8


class RandomBits:
    """The rule of `random_bits_p`."""

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.random_bits"
    PARAMETERS = (frozenset({"bit_width", "shape"}),)

    def primitive(self) -> Primitive:
        """Of JAX, which has it in no public module."""
        return _jax_rules.lowered_primitive("random_bits")

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        bit_width: int,
        shape: tuple[int, ...],
    ) -> bool:
        """Whether the keys are Threefry's, and the bits enough for a call."""
        (keys,) = avals
        if str(keys.dtype) != _THREEFRY or not lowering.is_static(shape):
            return False
        size = math.prod(shape)
        if not _is_partitionable() and size * bit_width // 32 >= _MAX_WORDS:
            return False
        return bool(size * math.prod(keys.shape) > _TINY)

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """No: XLA has each device draw its own part of what one key makes."""
        return False

    def lower(
        self, ctx: LoweringRuleContext, keys: ir.Value, **_: object
    ) -> Lowered:
        """Lowers to the handler."""
        (aval,) = lowering.shaped(ctx.avals_in)
        words = ShapedArray((*aval.shape, 2), np.dtype(np.uint32))
        lowering.register(CPU_LIBRARY, self.TARGET)
        lowered: Lowered = jax.ffi.ffi_lowering(self.TARGET)(
            ctx.replace(avals_in=[words]),
            keys,
            partitionable=np.bool_(_is_partitionable()),
        )
        return lowered


class UnrolledThreefry:
    """The rule of `threefry2x32_p` where a program has to be plain HLO.

    It is JAX's own for other platforms.
    """

    RESULT: Result = "exact"
    TARGET = None
    PARAMETERS = (frozenset[str](),)

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.lowered_primitive("threefry2x32")

    def covers(self, avals: Sequence[ShapedArray]) -> bool:
        """Always."""
        return True

    def partitions(self, avals: Sequence[ShapedArray]) -> bool:
        """Whether sharded operands stay in place."""
        return True

    def lower(self, ctx: LoweringRuleContext, *words: ir.Value) -> Lowered:
        """Lowers to plain HLO."""
        # Contexts of their own, since each may be given its tokens once.
        unrolled = _jax_rules.generic(self.primitive())
        hashed: Lowered = unrolled(ctx.replace(), *words)
        (out, _) = lowering.shaped(ctx.avals_out)
        if lowering.is_static(out.shape) and math.prod(out.shape) <= _TINY:
            return hashed
        # Else XLA would hash again for each use, in a reduction for each of
        # its results.
        once = mlir.lower_fun(
            lambda *hashed: jax.lax.optimization_barrier(hashed),
            multiple_results=True,
        )
        lowered: Lowered = once(ctx.replace(avals_in=ctx.avals_out), *hashed)
        return lowered


class Threefry2x32:
    """The rule of `threefry2x32_p`."""

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.threefry2x32"
    PARAMETERS = UnrolledThreefry.PARAMETERS

    def primitive(self) -> Primitive:
        """Of JAX."""
        return UnrolledThreefry().primitive()

    def covers(self, avals: Sequence[ShapedArray]) -> bool:
        """Whether there are enough counters for a call."""
        shape = np.broadcast_shapes(*(aval.shape for aval in avals))
        return math.prod(shape) > _TINY

    def partitions(self, avals: Sequence[ShapedArray]) -> bool:
        """No: XLA has each device hash its own counters."""
        return False

    def lower(self, ctx: LoweringRuleContext, *words: ir.Value) -> Lowered:
        """Lowers to the handler."""
        (out, _) = lowering.shaped(ctx.avals_out)
        lowering.register(CPU_LIBRARY, self.TARGET)
        like = jax.ShapeDtypeStruct(out.shape, out.dtype)
        hash_words = jax.ffi.ffi_call(self.TARGET, (like, like))

        def call(*words: jax.Array) -> Sequence[jax.Array]:
            keys, counters = words[:2], words[2:]
            if any(key.shape for key in keys):  # not one for all counters
                keys = tuple(jnp.broadcast_to(k, out.shape) for k in keys)
            counters = tuple(jnp.broadcast_to(c, out.shape) for c in counters)
            return hash_words(*keys, *counters)

        return _plain.lower(call, ctx, *words)


def _is_partitionable() -> bool:
    return bool(jax.config.jax_threefry_partitionable)  # type: ignore[attr-defined]
