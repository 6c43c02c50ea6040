"""JAX's default random number generator, Threefry-2x32.

All of `jax.random` draws its bits by `random_bits_p`, and makes keys by
`threefry2x32_p`; JAX lowers the former to the latter. On the CPU JAX lowers the
hash to a loop over its rounds, which other platforms get unrolled.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _jax, _loops
from xla_ffi_accelerate._rule import Reason, Rule, Typed
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import Advanced, FfiOp, extend

# The dtype of Threefry's keys, as JAX writes it.
_THREEFRY = "key<fry>"
# A key's counters have 32 bits if they are not partitionable. From this many
# words on JAX makes blocks of them, each with a key of its own.
_MAX_WORDS = 2**32 - 2
# Since jax 0.12 XLA compiles JAX's own hash to a part of a loop's function, and
# leaves apart what is on two sides of a barrier. Before, it hashes again for
# each element of a larger array that the words are fused into.
SINCE_0_12 = jax.__version_info__ >= (0, 12)
# In a loop, which a call would keep from being one function, up to so many
# words are hashed in place.
MAX_IN_PLACE = 64 if SINCE_0_12 else 16
# Break-even size: from here on a call is faster than JAX's own hash there.
_MIN_CALLED = 128 if SINCE_0_12 else 0
OWN = "XLA has JAX's own hash in the function of the loop"


def _drawn(
    keys: Typed, *, partitionable: bool, bit_width: int, shape: tuple[int, ...]
) -> Typed:
    return jax.ShapeDtypeStruct(shape, f"uint{bit_width}")


_bits_op: FfiOp[jax.Array] = FfiOp(
    "xla_ffi_accelerate.random_bits",
    results=_drawn,
    libraries=LIBRARIES,
    attributes={"bit_width": None, "shape": None},
)


def _hashed(
    key0: Typed, key1: Typed, counter0: Typed, counter1: Typed
) -> tuple[Typed, Typed]:
    return counter0, counter1


_hash_op: FfiOp[tuple[jax.Array, ...]] = FfiOp(
    "xla_ffi_accelerate.threefry2x32",
    results=_hashed,
    kernel_axes=0,
    libraries=LIBRARIES,
    shared=("key0", "key1"),
    advanced=Advanced(batches_shared=True),
)


def _why_not_called(count: int) -> Reason:
    if not _loops.inside():
        return None
    if count <= MAX_IN_PLACE:
        return f"in a loop, up to {MAX_IN_PLACE} words are hashed in place"
    return OWN if count < _MIN_CALLED else None


def _covers_bits(
    keys: ShapedArray, *, bit_width: int, shape: tuple[int, ...]
) -> Reason:
    if str(keys.dtype) != _THREEFRY:
        return f"the kernel has no {keys.dtype}"
    if not extend.is_static(shape):
        return "its shape is symbolic"
    count = math.prod(shape)
    is_blocked = count * bit_width // 32 >= _MAX_WORDS
    if is_blocked and not _jax.is_threefry_partitionable():
        return "JAX draws so many words in blocks"
    return _why_not_called(count * math.prod(keys.shape))


def _bits(
    keys: jax.Array, *, bit_width: int, shape: tuple[int, ...]
) -> jax.Array:
    return _bits_op(
        jax.random.key_data(keys),
        partitionable=_jax.is_threefry_partitionable(),
        bit_width=bit_width,
        shape=tuple(shape),
    )


def _covers_hash(*avals: ShapedArray) -> Reason:
    return _why_not_called(size(*avals))


def size(*avals: ShapedArray) -> int:
    """How many counters are hashed."""
    return math.prod(np.broadcast_shapes(*(aval.shape for aval in avals)))


def _hash(*words: jax.Array) -> tuple[jax.Array, ...]:
    shape = np.broadcast_shapes(*(x.shape for x in words))
    keys, counters = words[:2], words[2:]
    if any(key.shape for key in keys):  # not one for all counters
        keys = tuple(jnp.broadcast_to(k, shape) for k in keys)
    counters = tuple(jnp.broadcast_to(c, shape) for c in counters)
    return _hash_op(*keys, *counters)


# XLA has each device draw its own part of what one key makes.
RANDOM_BITS = Rule(
    "random_bits",
    _covers_bits,
    _bits,
    target=_bits_op.name,
)
THREEFRY = Rule(
    "threefry2x32",
    _covers_hash,
    _hash,
    target=_hash_op.name,
)
