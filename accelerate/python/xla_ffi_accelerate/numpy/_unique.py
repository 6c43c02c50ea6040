"""The unique elements of an array: `jnp.unique`, faster.

Composed from the kit's sort and its `nonzero`.
"""

from __future__ import annotations

import operator
from typing import Literal, TypedDict, Unpack, overload

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from xla_ffi_accelerate import _dtypes, _jit
from xla_ffi_accelerate.numpy import _rows
from xla_ffi_accelerate.numpy._nonzero import nonzero
from xla_ffi_kit import extend


class _Options(TypedDict, total=False):
    axis: int | None
    equal_nan: bool
    size: int | None
    fill_value: ArrayLike | None
    sorted: bool


@overload
def unique(ar: ArrayLike, **options: Unpack[_Options]) -> jax.Array: ...
@overload
def unique(
    ar: ArrayLike, return_index: Literal[True], **options: Unpack[_Options]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def unique(
    ar: ArrayLike, *, return_inverse: Literal[True], **options: Unpack[_Options]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def unique(
    ar: ArrayLike, *, return_counts: Literal[True], **options: Unpack[_Options]
) -> tuple[jax.Array, jax.Array]: ...
@overload
def unique(
    ar: ArrayLike,
    return_index: Literal[True],
    return_inverse: Literal[True],
    return_counts: Literal[True],
    **options: Unpack[_Options],
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]: ...
@overload
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    **options: Unpack[_Options],
) -> jax.Array | tuple[jax.Array, ...]: ...
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    **options: bool,
) -> jax.Array | tuple[jax.Array, ...]:
    """The unique elements in ascending order, like `jnp.unique`.

    Args:
      ar: any array.
      return_index: whether to return the index of the first occurrence of each
        element.
      return_inverse: whether to return the position of each element of `ar` in
        the result.
      return_counts: whether to return how often each element occurs.
      axis: the axis along which to find unique slices. An `axis`, and complex
        numbers, use `jnp.unique`.
      equal_nan: whether NaNs equal each other.
      size: the number of elements to return. You need it inside `jax.jit`.
        Default: all.
      fill_value: the value of the remaining elements if there are fewer than
        `size`. Default: the smallest element.
      **options: `sorted`, which has no effect, if this release of JAX has it.

    Returns:
      The elements, or a tuple of the elements, the indices, the inverse and the
      counts, as far as you ask for them.

    Raises:
      ValueError: there is no element, a `size`, and no `fill_value`.
    """
    ar = jnp.asarray(ar)
    is_flat = ar.ndim == 1 or axis is None
    if not is_flat or str(ar.dtype) not in _dtypes.REAL or not _is_known(ar):
        own: jax.Array | tuple[jax.Array, ...] = jnp.unique(
            ar,
            *(return_index, return_inverse, return_counts, axis),
            equal_nan=equal_nan,
            size=size,
            fill_value=fill_value,
            **options,
        )
        return own
    wanted = (return_index, return_inverse, return_counts)
    x, order, is_first, count = _sorted(ar.ravel(), equal_nan, any(wanted[:2]))
    results = _collect(
        x,
        order,
        is_first,
        None if size is None else fill_value,
        wanted=wanted,
        size=int(count) if size is None else operator.index(size),
        is_padded=size is not None,
    )
    if return_inverse and axis is None:
        results[1 + return_index] = results[1 + return_index].reshape(ar.shape)
    return results[0] if len(results) == 1 else tuple(results)


def _is_known(x: jax.Array) -> bool:
    return extend.is_static(x.shape) and x.size > 0


@_jit.jit(static_argnums=(1, 2))
def _sorted(
    x: jax.Array, equal_nan: bool, needs_order: bool
) -> tuple[jax.Array, jax.Array | None, jax.Array, jax.Array]:
    """x sorted, the indices in that order, which are first, how many."""
    order = None
    if x.dtype == jnp.bfloat16:
        # Sorting canonicalizes NaN payloads; gather the originals by argsort.
        order = _rows.argsort_rows(x)[1]
        x = x[order]
    elif needs_order:
        x, order = _rows.argsort_rows(x)
    else:
        x = _rows.sort_op(x, num_keys=1)
    differ = x[1:] != x[:-1]
    if equal_nan and jnp.issubdtype(x.dtype, jnp.floating):
        differ &= ~(jnp.isnan(x[1:]) & jnp.isnan(x[:-1]))
    is_first = jnp.concatenate([jnp.ones(1, bool), differ])
    return x, order, is_first, is_first.sum()


@_jit.jit(static_argnames=("wanted", "size", "is_padded"))
def _collect(
    x: jax.Array,
    order: jax.Array | None,
    is_first: jax.Array,
    fill_value: ArrayLike | None,
    *,
    wanted: tuple[bool, bool, bool],
    size: int,
    is_padded: bool,
) -> list[jax.Array]:
    """The values, and of indices, inverse and counts what is wanted."""
    wants_index, wants_inverse, wants_counts = wanted
    first = nonzero(is_first, size=size)[0]
    values = x[first]
    if fill_value is not None:
        is_there = jnp.arange(size) < is_first.sum()
        values = jnp.where(
            is_there, values, jnp.asarray(fill_value).astype(x.dtype)
        )
    results = [values]
    if wants_index and order is not None:
        results.append(order[first])
    if wants_inverse and order is not None:
        place = jnp.cumsum(is_first) - 1
        inverse = jnp.zeros(x.shape, place.dtype)
        results.append(inverse.at[order].set(place, unique_indices=True))
    if wants_counts:
        n = jnp.asarray(x.size, first.dtype)
        ends = jnp.append(first, n)
        if is_padded:
            ends = nonzero(is_first, size=size + 1)[0]
            ends = ends.at[1:].set(jnp.where(ends[1:] > 0, ends[1:], n))
        results.append(jnp.diff(ends))
    return results
