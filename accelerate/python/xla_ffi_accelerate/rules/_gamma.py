"""Gamma samples, of which only rejected ones are drawn again.

JAX proposes new numbers for a whole array until each element has accepted one.
Here all elements get their first proposal, and a loop over scalars, which XLA
compiles to one function, draws again for those that reject it: a few percent.
Each element's key gives the numbers that JAX makes of it.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray

from xla_ffi_accelerate import _dtypes, _jax
from xla_ffi_accelerate._rule import Reason
from xla_ffi_kit import extend

# The words of an element's key, of any shape.
_Key: TypeAlias = tuple[jax.Array, jax.Array]

# As many flags are one word.
_FLAGS = 32


def covers(keys: ShapedArray, alpha: ShapedArray, *, log_space: bool) -> Reason:
    """As `Rule.covers`, of Threefry's keys."""
    del log_space
    if str(alpha.dtype) not in _dtypes.WIDE:
        return f"it is not written out for {alpha.dtype}"
    if not extend.is_static(keys.shape, alpha.shape):
        return "its shape is symbolic"
    if not 0 < math.prod(alpha.shape) < 2**31:
        return "it counts from 1 to 2^31 elements"
    return None


class _Generator:
    """JAX's functions of Threefry's keys, of the words of many keys."""

    def __init__(self) -> None:
        self._primitive = _jax.primitive("threefry2x32")
        self._is_partitionable = _jax.is_threefry_partitionable()

    def _hash(self, key: _Key, first: int, second: int) -> _Key:
        counters = (jnp.full_like(key[0], i) for i in (first, second))
        words = self._primitive.bind(*key, *counters)
        if key[0].ndim:  # XLA would hash again for each use
            words = lax.optimization_barrier(words)
        return words[0], words[1]

    def split(self, key: _Key, count: int) -> list[_Key]:
        if self._is_partitionable:
            return [self._hash(key, 0, i) for i in range(count)]
        pairs = [self._hash(key, i, count + i) for i in range(count)]
        words = [pair[i] for i in (0, 1) for pair in pairs]
        return list(zip(words[::2], words[1::2], strict=True))

    def uniform(self, key: _Key, low: float, like: jax.Array) -> jax.Array:
        """Numbers from `low` to 1, of the dtype of `like`."""
        dtype = like.dtype
        least, one = np.array(low, dtype), np.array(1, dtype)
        bits = self._bits(key, dtype.itemsize == 8)
        shift = 8 * dtype.itemsize - np.finfo(str(dtype)).nmant
        bits = lax.shift_right_logical(bits, jnp.full_like(bits, shift))
        bits |= one.view(bits.dtype)
        floats = lax.bitcast_convert_type(bits, dtype) - one
        floats = floats * (one - least) + least
        return lax.max(jnp.full_like(floats, least), floats)

    def _bits(self, key: _Key, is_wide: bool) -> jax.Array:
        apart = is_wide and not self._is_partitionable
        high, low = self._hash(key, 0, int(apart))
        if is_wide:
            upper = high.astype(np.uint64) << np.uint64(32)
            return upper | low.astype(np.uint64)
        return high ^ low if self._is_partitionable else high

    def normal(self, key: _Key, like: jax.Array) -> jax.Array:
        dtype = like.dtype
        above = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
        normal = lax.erf_inv(self.uniform(key, float(above), like))
        return normal * np.array(np.sqrt(2), dtype)


def call(keys: jax.Array, alpha: jax.Array, *, log_space: bool) -> jax.Array:
    """As `Rule.call`. Expressions are JAX's, and so is their rounding.

    Only of a constant alpha XLA computes them while it compiles, in another
    order: it may divide by a root, or multiply by its reciprocal.
    """
    shape, dtype = alpha.shape, alpha.dtype
    generator = _Generator()
    count = alpha.size // math.prod(keys.shape)
    own = jax.vmap(lambda key: jax.random.split(key, count))(keys.reshape(-1))
    data = jax.random.key_data(own).reshape(-1, 2)
    key, last = generator.split((data[:, 0], data[:, 1]), 2)

    alpha = alpha.reshape(-1)
    one, third = jnp.full_like(alpha, 1), np.array(1 / 3, dtype)
    is_usual = alpha >= one
    d = lax.select(is_usual, alpha, alpha + one) - third
    c = third / lax.sqrt(d)
    # As it would be in the state of JAX's loop, no expression goes across.
    v = _accepted(generator, key, *lax.optimization_barrier((c, d)))
    if log_space:
        exponential = -lax.log1p(-generator.uniform(last, 0, alpha))
        log = -exponential
        zero = jnp.full_like(log, 0)
        boost = lax.select(is_usual | (log == 0), zero, log * (one / alpha))
        return ((lax.log(d) + lax.log(v)) + boost).reshape(shape)
    uniform = np.array(1, dtype) - generator.uniform(last, 0, alpha)
    boost = lax.select(is_usual, one, lax.pow(uniform, one / alpha))
    return ((d * v) * boost).reshape(shape)


def _accepted(
    generator: _Generator, key: _Key, c: jax.Array, d: jax.Array
) -> jax.Array:
    """V of Marsaglia and Tsang's algorithm of each element."""
    _, x_key, u_key = generator.split(key, 3)
    _, x_key = generator.split(x_key, 2)
    x = generator.normal(x_key, c)
    x, v = lax.optimization_barrier((x, 1 + x * c))
    cube, rejects = _judged(generator, u_key, x, v, d)
    flags = _packed((v <= 0) | rejects)

    def has_word(state: tuple[jax.Array, jax.Array]) -> jax.Array:
        return state[0] < flags.size

    def next_word(
        state: tuple[jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array]:
        at, cubes = state
        word = lax.dynamic_index_in_dim(flags, at, keepdims=False)
        _, cubes = lax.while_loop(
            lambda state: state[0] != 0,
            lambda state: _next_flag(generator, key, c, d, at, *state),
            (word, cubes),
        )
        return at + 1, cubes

    start = jnp.zeros((), np.int32), cube
    accepted: jax.Array = lax.while_loop(has_word, next_word, start)[1]
    return accepted


def _next_flag(
    generator: _Generator,
    key: _Key,
    c: jax.Array,
    d: jax.Array,
    at: jax.Array,
    word: jax.Array,
    cubes: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Draws the element of the word's lowest flag, and clears the flag."""
    rest = word & (word - 1)
    bit = lax.population_count((word ^ rest) - 1)
    i = at * _FLAGS + bit.astype(np.int32)
    element = [
        lax.dynamic_index_in_dim(x, i, keepdims=False) for x in (*key, c, d)
    ]
    cube = _drawn(generator, (element[0], element[1]), *element[2:])
    return rest, lax.dynamic_update_index_in_dim(cubes, cube, i, 0)


def _drawn(
    generator: _Generator, key: _Key, c: jax.Array, d: jax.Array
) -> jax.Array:
    """V of one element, which may reject any number of proposals."""

    def normal(
        state: tuple[_Key, jax.Array, jax.Array],
    ) -> tuple[_Key, jax.Array, jax.Array]:
        key, at = generator.split(state[0], 2)
        x = generator.normal(at, c)
        return key, x, 1 + x * c

    def propose(
        state: tuple[_Key, jax.Array, jax.Array],
    ) -> tuple[_Key, jax.Array, jax.Array]:
        key, x_key, u_key = generator.split(state[0], 3)
        start = x_key, jnp.full_like(c, 0), jnp.full_like(c, -1)
        _, x, v = lax.while_loop(lambda state: state[2] <= 0, normal, start)
        return key, *_judged(generator, u_key, x, v, d)

    start = key, jnp.full_like(c, 1), jnp.full_like(c, 1, bool)
    drawn: jax.Array = lax.while_loop(lambda state: state[2], propose, start)[1]
    return drawn


def _judged(
    generator: _Generator,
    key: _Key,
    x: jax.Array,
    v: jax.Array,
    d: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """V, and whether the element rejects it."""
    proposal = x * x, v * v * v, generator.uniform(key, 0, d)
    square, cube, uniform = lax.optimization_barrier(proposal)
    dtype = d.dtype
    one = np.array(1, dtype)
    squeeze = uniform >= one - np.array(0.0331, dtype) * (square * square)
    bound = square * np.array(0.5, dtype) + d * (one - cube + lax.log(cube))
    return cube, squeeze & (lax.log(uniform) >= bound)


def _packed(flags: jax.Array) -> jax.Array:
    """Words of `_FLAGS` flags each, the first one in the lowest bit."""
    padded = jnp.pad(flags, (0, -flags.size % _FLAGS)).reshape(-1, _FLAGS)
    place = lax.broadcasted_iota(np.uint32, padded.shape, 1)
    bits = lax.shift_left(padded.astype(np.uint32), place)
    packed: jax.Array = lax.optimization_barrier(
        jnp.sum(bits, 1, dtype=np.uint32)
    )
    return packed
