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
    of_jax = functools.partial(
        jax.random.permutation, axis=axis, independent=independent, **options
    )
    x = x if np.ndim(x) == 0 else jnp.asarray(x)
    if options or not all(isinstance(size, int) for size in np.shape(x)):
        return of_jax(key, x)
    if np.ndim(x) == 0:
        n = jax.eval_shape(lambda key: of_jax(key, x), key).size
        return _order(key, (n,), 0)
    jax.eval_shape(of_jax, key, x)  # JAX's own checks
    if independent and x.ndim > 1:
        order = _order(key, x.shape, axis % x.ndim)
        return jnp.take_along_axis(x, order, axis)
    order = _order(key, (x.shape[axis],), 0)
    return jnp.take(x, order, axis, unique_indices=True)


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
    if replace or p is not None:
        return jax.random.choice(key, a, shape, replace, p, axis, mode)
    a = a if np.ndim(a) == 0 else jnp.asarray(a)
    own = functools.partial(
        jax.random.choice, a=a, shape=shape, replace=False, axis=axis
    )
    result = jax.eval_shape(own, key)  # JAX's own checks
    sizes = *np.shape(a), *result.shape
    if not all(isinstance(size, int) for size in sizes) or 0 in sizes:
        return own(key)
    population = int(a) if np.ndim(a) == 0 else a.shape[axis]
    drawn = permutation(key, population)[: math.prod(shape)].reshape(shape)
    return drawn if np.ndim(a) == 0 else jnp.take(a, drawn, axis)


@functools.partial(jax.jit, static_argnums=(1, 2))
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
