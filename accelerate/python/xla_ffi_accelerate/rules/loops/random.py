"""JAX's hash of random numbers, unrolled in plain HLO."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _jax, _loops
from xla_ffi_accelerate._rule import Reason, Rule
from xla_ffi_accelerate.rules.handlers import random
from xla_ffi_kit import extend

# A key is split in up to so many keys, as a rule; more words are drawn.
_MAX_KEYS = 3


@functools.cache
def _unrolled() -> _jax.Function:
    return _jax.as_on_other_platforms("threefry2x32")


def _covers_in_place(*avals: ShapedArray) -> Reason:
    if _loops.few_steps():
        return _loops.SO_FEW_STEPS
    if not (random.SINCE_0_12 and _loops.inside()):
        return None
    is_static = extend.is_static(*(aval.shape for aval in avals))
    is_small = is_static and random.size(*avals) <= random.MAX_IN_PLACE
    return None if is_small else random.OWN


def _hash_in_place(*words: jax.Array) -> Sequence[jax.Array]:
    """Hashes so that XLA does not compile it again for each use of the words.

    There are many uses of keys. XLA repeats no reduction.
    """
    hashed = _unrolled()(*words)
    shape = hashed[0].shape
    is_small = extend.is_static(shape) and math.prod(shape) <= _MAX_KEYS
    if is_small and _loops.inside() and not random.SINCE_0_12:
        return [_reduced(word) for word in hashed]
    kept: Sequence[jax.Array] = jax.lax.optimization_barrier(hashed)
    return kept


def _reduced(words: jax.Array) -> jax.Array:
    """The same words, by a reduction."""
    rows = jnp.stack([words, jnp.zeros_like(words)])
    found: jax.Array = jax.lax.reduce(
        rows, np.uint32(0), jax.lax.bitwise_or, [0]
    )
    return found


# For programs that have to be plain HLO.
UNROLLED = Rule(
    "threefry2x32",
    _covers_in_place,
    _hash_in_place,
    partitions=True,
    priority=-1,
)
