"""Sampling and order statistics until `accelerate` reaches JAX's own.

Medians and quantiles: from jax 0.12 on JAX sorts there in any order of equals,
which `accelerate` has to leave alone; these functions do not. Permutations and
samples: the same key gives the same result as in JAX, which sorts by random
numbers of 32 bits, once or more. All are composed from the kit's sort.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._jit import jit
from xla_ffi_kit.ops import sort

__all__ = ["choice", "median", "percentile", "permutation", "quantile"]


def __dir__() -> list[str]:
    return __all__


_Axis: TypeAlias = int | tuple[int, ...] | None
_Method = Literal["linear", "lower", "higher", "midpoint", "nearest"]


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: _Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: _Method = "linear",
    keepdims: bool = False,
    **options: Any,
) -> jax.Array:
    """Quantiles along any axes, as `jnp.quantile` has them.

    Args:
      a: an array of real numbers.
      q: a number from 0 to 1, or a vector of them.
      axis: an axis or a tuple of axes. Default: all of them.
      out: None.
      overwrite_input: False.
      method: "linear", "lower", "higher", "midpoint", "nearest"; any other one
        is left to `jnp.quantile`.
      keepdims: whether the result keeps the axes, with size one.
      **options: `weights`, if this JAX has it; left to `jnp.quantile`.

    Returns:
      The quantiles, those of a vector `q` along a new first axis; NaN where
      there is one among the elements. Of float32, or the type of `a`.

    Raises:
      TypeError, ValueError: what `jnp.quantile` raises.
    """
    rest = axis, out, overwrite_input, method, keepdims
    if options or not _is_plain(axis, out, overwrite_input):
        return jnp.quantile(a, q, *rest, **options)
    a, q = _check.jittable(a), _check.jittable(q)
    return _quantile(a, q, axis, method, keepdims)


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: _Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: _Method = "linear",
    keepdims: bool = False,
    **options: Any,
) -> jax.Array:
    """`quantile` of q / 100, as `jnp.percentile` has it."""
    rest = axis, out, overwrite_input, method, keepdims
    if options or not _is_plain(axis, out, overwrite_input):
        return jnp.percentile(a, q, *rest, **options)
    a, q = _check.jittable(a), _check.jittable(q)
    return _percentile(a, q, axis, method, keepdims)


def median(
    a: ArrayLike,
    axis: _Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> jax.Array:
    """The median along any axes, as `jnp.median` has it; see `quantile`."""
    if not _is_plain(axis, out, overwrite_input):
        return jnp.median(a, axis, out, overwrite_input, keepdims)
    return _median(_check.jittable(a), axis, keepdims)


def _is_plain(axis: _Axis, out: object, overwrite_input: bool) -> bool:
    is_axis = axis is None or isinstance(axis, int | tuple)
    return is_axis and out is None and not overwrite_input


# All the rest is done when a program is traced, as in JAX: a call of few
# elements is mostly what comes before its program.
@jit(static_argnums=(1, 2))
def _median(a: ArrayLike, axis: _Axis, keepdims: bool) -> jax.Array:
    a = jnp.asarray(a)
    if a.size == 0:  # which JAX reports, or not
        return jnp.median(a, axis, keepdims=keepdims)
    return _quantile(a, 0.5, axis, "midpoint", keepdims)


@jit(static_argnums=(2, 3, 4))
def _percentile(
    a: ArrayLike, q: ArrayLike, axis: _Axis, method: _Method, keepdims: bool
) -> jax.Array:
    return _quantile(a, jnp.asarray(q) / 100, axis, method, keepdims)


@jit(static_argnums=(2, 3, 4))
def _quantile(
    a: ArrayLike, q: ArrayLike, axis: _Axis, method: _Method, keepdims: bool
) -> jax.Array:
    a, q = jnp.asarray(a), jnp.asarray(q)
    if (
        method not in get_args(_Method)
        or str(q.dtype) not in _dtypes.FLOATS
        or str(a.dtype) not in _dtypes.REAL
        or not (_check.is_static(a.shape) and a.size)
    ):
        return jnp.quantile(a, q, axis, method=method, keepdims=keepdims)
    # JAX's own checks, and the type and shape it has for the result.
    jnp_quantile = functools.partial(
        jnp.quantile, axis=axis, method=method, keepdims=keepdims
    )
    result = jax.eval_shape(jnp_quantile, a, q)
    rows = _rows(a.astype(result.dtype), axis)
    n = rows.shape[-1]
    has_nan = jnp.isnan(rows).any(-1, keepdims=True)
    ordered = sort.sort_rows(jnp.where(has_nan, jnp.nan, rows))

    position = q * jnp.asarray(n - 1, q.dtype)
    low, high = jnp.floor(position), jnp.ceil(position)
    high_weight = position - low
    # Reshaped, for users who have JAX refuse to promote ranks.
    high_weight = high_weight.reshape(*(1,) * (rows.ndim - 1), q.size)
    low_weight = 1 - high_weight

    def at(index: jax.Array) -> jax.Array:
        index = jnp.clip(index, 0, n - 1).astype(int)
        return jnp.take(ordered, jnp.atleast_1d(index), -1, mode="clip")

    if method == "lower":
        values = at(low)
    elif method == "higher":
        values = at(high)
    elif method == "nearest":
        values = jnp.where(high_weight <= 0.5, at(low), at(high))
    elif method == "midpoint":
        values = (at(low) + at(high)) * jnp.asarray(0.5, result.dtype)
    else:
        values = at(low).astype(q.dtype) * low_weight
        values += at(high).astype(q.dtype) * high_weight
    values = jnp.moveaxis(values, -1, 0)
    return values.reshape(result.shape).astype(result.dtype)


def _rows(a: jax.Array, axis: _Axis) -> jax.Array:
    """The elements along `axis` as the last one."""
    axes = range(a.ndim) if axis is None else np.atleast_1d(axis) % a.ndim
    kept = [i for i in range(a.ndim) if i not in axes]
    n = math.prod(a.shape[i] for i in axes)
    rows = jax.lax.transpose(a, [*kept, *axes])
    return rows.reshape(*(a.shape[i] for i in kept), n)


def permutation(
    key: jax.Array,
    x: int | ArrayLike,
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
    if isinstance(x, int | np.integer):
        return _permuted(key, None, int(x), axis, independent)
    return _permuted(key, _check.jittable(x), 0, axis, independent)


def choice(
    key: jax.Array,
    a: int | ArrayLike,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: ArrayLike | None = None,
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
    if isinstance(a, int | np.integer):
        return _drawn(key, None, int(a), tuple(shape), axis)
    return _drawn(key, jnp.asarray(a), 0, tuple(shape), axis)


@jit(static_argnums=(2, 3, 4))
def _permuted(
    key: jax.Array, x: ArrayLike | None, n: int, axis: int, independent: bool
) -> jax.Array:
    """x, or else the numbers below n, permuted."""
    x = x if x is None else jnp.asarray(x)
    if x is not None and not _check.is_static(x.shape):
        return jax.random.permutation(key, x, axis, independent)
    population = n if x is None else x
    own = jax.random.permutation
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


@jit(static_argnums=(2, 3, 4))
def _drawn(
    key: jax.Array,
    a: jax.Array | None,
    n: int,
    shape: tuple[int, ...],
    axis: int,
) -> jax.Array:
    """Elements of a, or else numbers below n, none of them twice."""
    population = n if a is None else a
    own = jax.random.choice
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
