"""A decoding loop whose key-value cache a C++ kernel updates in place.

`jax.new_ref` holds the cache, `append` writes one row of it, and `attend` reads
it: `ref[...] = append(ref[...], ...)` costs a row, however long the cache is.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

import xla_ffi_kit


@xla_ffi_kit.inline(
    r"""
#include <algorithm>

template <typename T, typename Entry, typename Position>
void append(kit::In<T> cache, kit::In<Entry> entry, kit::In<Position> position,
            kit::Out<T> out) {
  const int64_t n = cache.dim(-1), length = cache.dim(-2);
  for (int64_t b = 0; b < position.size(); ++b) {
    const int64_t row = position[b];
    if (row < 0 || row >= length) continue;
    std::copy(entry.row(b), entry.row(b) + n, &out[(b * length + row) * n]);
  }
}""",
    axes="(length,n),(n),()->(length,n)",
    dtypes=["f32,f32,s32", "bf16,bf16,s32"],
    aliases={"cache": "result"},
)
def append(
    cache: jax.Array, entry: jax.Array, position: jax.Array
) -> jax.Array:
    """The cache with `entry` as its row `position`; out of range, as it was."""
    rows = jnp.arange(cache.shape[-2]) == position[..., None]
    return jnp.where(rows[..., None], entry[..., None, :], cache)


class Cache(NamedTuple):
    """The keys and values of all steps so far."""

    keys: jax.Ref  # [batch, length, n]
    values: jax.Ref  # [batch, length, n]


def new_cache(batch: int, length: int, n: int) -> Cache:
    """An empty cache."""
    zeros = jnp.zeros((batch, length, n), jnp.float32)
    return Cache(jax.new_ref(zeros), jax.new_ref(zeros))


def attend(query: jax.Array, cache: Cache, position: jax.Array) -> jax.Array:
    """Attention of [batch, n] queries to the rows up to `position`."""
    keys, values = cache.keys[...], cache.values[...]
    scores = jnp.einsum("bn,bln->bl", query, keys) / math.sqrt(query.shape[-1])
    seen = jnp.arange(keys.shape[1]) <= position
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf))
    return jnp.einsum("bl,bln->bn", weights, values)


def step(
    weights: jax.Array, cache: Cache, x: jax.Array, position: jax.Array
) -> jax.Array:
    """One token: [batch, n] to [batch, n], by weights [3, n, n]."""
    query, key, value = jnp.einsum("bn,knm->kbm", x, weights)
    everywhere = jnp.full(x.shape[:1], position, jnp.int32)
    cache.keys[...] = append(cache.keys[...], key, everywhere)
    cache.values[...] = append(cache.values[...], value, everywhere)
    return jnp.tanh(x + attend(query, cache, position))


@jax.jit
def decode(weights: jax.Array, cache: Cache, x: jax.Array) -> jax.Array:
    """Fills the cache, each token from the one before; all of them."""

    def body(x: jax.Array, position: jax.Array) -> tuple[jax.Array, jax.Array]:
        y = step(weights, cache, x, position)
        return y, y

    return jax.lax.scan(body, x, jnp.arange(cache.keys.shape[1]))[1]
