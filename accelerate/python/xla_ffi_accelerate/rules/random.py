"""JAX's default random number generator, Threefry-2x32.

All of `jax.random` draws its bits by `random_bits_p`, and makes keys by
`threefry2x32_p`; JAX lowers the former to the latter. On the CPU JAX lowers the
hash to a loop over its rounds, which other platforms get unrolled.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _handler, _jax, _loops
from xla_ffi_accelerate._rule import Reason, Rule, params
from xla_ffi_accelerate.rules import _gamma
from xla_ffi_kit import lowering

# The dtype of Threefry's keys, as JAX writes it.
_THREEFRY = "key<fry>"
# A key's counters have 32 bits if they are not partitionable. From this many
# words on JAX makes blocks of them, each with a key of its own.
_MAX_WORDS = 2**32 - 2
# Break-even size: up to here the unrolled hash, which fuses with what is around
# it, is faster than a call. XLA starts threads for 9 hashes or more, except in
# a loop, which a call would keep from being one function. XLA hashes again for
# each element of a larger array that the words are fused into, which is why a
# loop does not have more of them in place either.
_TINY = 8
_TINY_IN_LOOP = 16


def _tiny() -> int:
    return _TINY_IN_LOOP if _loops.inside() else _TINY


def _unless_tiny(size: int) -> Reason:
    if size > _tiny():
        return None
    return f"the hash in place is as fast for up to {_tiny()} words"


def _covers_bits(
    keys: ShapedArray, *, bit_width: int, shape: tuple[int, ...]
) -> Reason:
    if str(keys.dtype) != _THREEFRY:
        return f"the kernel has no {keys.dtype}"
    if not lowering.is_static(shape):
        return "its shape is symbolic"
    size = math.prod(shape)
    is_blocked = size * bit_width // 32 >= _MAX_WORDS
    if is_blocked and not _jax.is_threefry_partitionable():
        return "JAX draws so many words in blocks"
    return _unless_tiny(size * math.prod(keys.shape))


def _bits(
    keys: jax.Array, *, bit_width: int, shape: tuple[int, ...]
) -> list[jax.Array]:
    dtype = np.dtype(f"uint{bit_width}")
    return _handler.call(
        "xla_ffi_accelerate.random_bits",
        [((*keys.shape, *shape), dtype)],
        jax.random.key_data(keys),
        partitionable=np.bool_(_jax.is_threefry_partitionable()),
    )


def _covers_hash(*avals: ShapedArray) -> Reason:
    shape = np.broadcast_shapes(*(aval.shape for aval in avals))
    return _unless_tiny(math.prod(shape))


def _hash(*words: jax.Array) -> list[jax.Array]:
    shape = np.broadcast_shapes(*(x.shape for x in words))
    keys, counters = words[:2], words[2:]
    if any(key.shape for key in keys):  # not one for all counters
        keys = tuple(jnp.broadcast_to(k, shape) for k in keys)
    counters = tuple(jnp.broadcast_to(c, shape) for c in counters)
    like = shape, np.uint32
    return _handler.call(
        "xla_ffi_accelerate.threefry2x32", [like, like], *keys, *counters
    )


@functools.cache
def _unrolled() -> _jax.Function:
    return _jax.as_on_other_platforms("threefry2x32")


def _hash_in_place(*words: jax.Array) -> Sequence[jax.Array]:
    hashed = _unrolled()(*words)
    size = hashed[0].shape
    if lowering.is_static(size) and math.prod(size) <= _tiny():
        return hashed
    # Otherwise XLA would hash again for each use, in a reduction for each of
    # its results.
    kept: Sequence[jax.Array] = jax.lax.optimization_barrier(hashed)
    return kept


def _covers_gamma(
    keys: ShapedArray, alpha: ShapedArray, *, log_space: bool
) -> Reason:
    if str(keys.dtype) != _THREEFRY:
        return f"it is not written out for {keys.dtype}"
    if alpha.shape in ((), (1,)) and not _loops.inside():
        return "JAX's own loop is as fast for one sample outside of loops"
    return _gamma.covers(keys, alpha, log_space=log_space)


# XLA has each device draw its own part of what one key makes.
RANDOM_BITS = Rule(
    "random_bits",
    params("bit_width", "shape"),
    _covers_bits,
    _bits,
    target="xla_ffi_accelerate.random_bits",
)
THREEFRY = Rule(
    "threefry2x32",
    params(),
    _covers_hash,
    _hash,
    target="xla_ffi_accelerate.threefry2x32",
)
# For programs that have to be plain HLO.
UNROLLED_THREEFRY = Rule(
    "threefry2x32",
    params(),
    lambda *_: None,
    _hash_in_place,
    partitions=True,
)
GAMMA = Rule(
    "jax.random.random_gamma_p",
    params("log_space"),
    _covers_gamma,
    _gamma.call,
    exact=False,
)
