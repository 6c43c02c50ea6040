"""Permutations and samples: `jax.random.permutation`, `choice`, faster.

The same key gives the same result as in JAX, which sorts by random numbers of
32 bits, once or more. Composed from the kit's sort.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _check
from xla_ffi_kit.ops import sort


def permutation(
    key: Any,
    x: Any,
    axis: int = 0,
    independent: bool = False,
    **options: Any,
) -> jax.Array:
    """A permutation, as `jax.random.permutation` has it.

    Args:
      key: a key of `jax.random`.
      x: an array; or a number n, for arange(n).
      axis: the axis of x that is permuted.
      independent: whether each line along `axis` has a permutation of its own.
      **options: `out_sharding`, if this JAX has it; left to JAX.

    Returns:
      x, permuted.

    Raises:
      TypeError, ValueError: what `jax.random.permutation` raises.
    """
    is_number = isinstance(x, int | np.integer)
    if options or (np.ndim(x) == 0 and not is_number):
        return jax.random.permutation(key, x, axis, independent, **options)
    if is_number:
        return _permuted(key, None, int(x), axis, independent)
    return _permuted(key, _check.jittable(x), 0, axis, independent)


def choice(
    key: Any,
    a: Any,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> jax.Array:
    """A random sample, as `jax.random.choice` has it.

    Args:
      key: a key of `jax.random`.
      a: an array to draw from; or a number n, for arange(n).
      shape: of the sample.
      replace: whether an element may be drawn again. If so, and with
        probabilities, there is nothing to sort, and it is left to JAX.
      p: the probability of each element. Default: all are equal.
      axis: the axis of `a` that is drawn from.
      mode: of JAX's sampling with probabilities.

    Returns:
      The sample, in place of the axis.

    Raises:
      TypeError, ValueError: what `jax.random.choice` raises.
    """
    if replace or p is not None or not isinstance(shape, Sequence):
        return jax.random.choice(key, a, shape, replace, p, axis, mode)
    sizes = *np.shape(a), *shape
    is_number = isinstance(a, int | np.integer)
    if (
        not _check.is_static(sizes)
        or 0 in sizes
        or (np.ndim(a) == 0 and not is_number)
    ):
        return jax.random.choice(key, a, shape, False, p, axis, mode)
    if is_number:
        return _drawn(key, None, int(a), tuple(shape), axis)
    return _drawn(key, jnp.asarray(a), 0, tuple(shape), axis)


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _permuted(
    key: jax.Array, x: Any, n: int, axis: int, independent: bool
) -> jax.Array:
    """x, or else the numbers below n, permuted."""
    x = x if x is None else jnp.asarray(x)
    if x is not None and not _check.is_static(x.shape):
        return jax.random.permutation(key, x, axis, independent)
    population = n if x is None else x
    own: Any = jax.random.permutation
    own = functools.partial(own, axis=axis, independent=independent)
    # JAX's own checks, once for each compiled program.
    jax.eval_shape(lambda key: own(key, population), key)
    if x is None:
        return _order(key, (n,), 0)
    if independent and x.ndim > 1:
        order = _order(key, x.shape, axis % x.ndim)
        return jnp.take_along_axis(x, order, axis)
    order = _order(key, (x.shape[axis],), 0)
    return jnp.take(x, order, axis, unique_indices=True)


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _drawn(
    key: jax.Array, a: Any, n: int, shape: tuple[int, ...], axis: int
) -> jax.Array:
    """Elements of a, or else numbers below n, none of them twice."""
    population = n if a is None else a
    own: Any = jax.random.choice
    own = functools.partial(own, shape=shape, replace=False, axis=axis)
    jax.eval_shape(lambda key: own(key, population), key)
    count = n if a is None else a.shape[axis]
    drawn = _order(key, (count,), 0)[: math.prod(shape)].reshape(shape)
    return drawn if a is None else jnp.take(a, drawn, axis)


def _order(key: jax.Array, shape: tuple[int, ...], axis: int) -> jax.Array:
    """The indices along `axis` in random order, as JAX shuffles them."""
    dtype = jnp.arange(0).dtype
    order = jax.lax.broadcasted_iota(dtype, shape, axis)
    order = jnp.moveaxis(order, axis, -1)
    size = max(1, math.prod(shape))
    # Enough that equal numbers in all of them are unlikely: JAX's own count.
    for _ in range(math.ceil(3 * np.log(size) / np.log(2**32 - 1))):
        key, subkey = jax.random.split(key)
        numbers = jax.random.bits(subkey, shape, np.uint32)
        numbers = jnp.moveaxis(numbers, axis, -1)
        order = sort.sort_rows_with(numbers, order)[1]
    return jnp.moveaxis(order, -1, axis)
