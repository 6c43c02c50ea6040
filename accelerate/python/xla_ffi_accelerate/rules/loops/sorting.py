"""Sorts and selections of a few elements, written out in plain HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import ShapedArray

from xla_ffi_accelerate import _dtypes
from xla_ffi_accelerate._rule import Reason
from xla_ffi_accelerate.rules.handlers import sorting
from xla_ffi_accelerate.rules.loops import written_out

# Beyond these sizes the kit's kernels, or XLA's own, are as fast in a loop.
_MAX_SORTED = 8
_MAX_ELEMENTS_SORTED = 32
_KEYS = frozenset(_dtypes.KEPT)
_PAYLOAD = _KEYS.union(_dtypes.COMPLEX)


def _covers_sort(
    *avals: ShapedArray, dimension: int, is_stable: bool, num_keys: int
) -> Reason:
    del is_stable  # as `sorting.SORT`
    shape = avals[0].shape
    if num_keys != 1 or str(avals[0].dtype) not in _KEYS:
        return "it is written out for one key, which is real, but not bf16"
    if not _PAYLOAD.issuperset(str(aval.dtype) for aval in avals):
        return "it is written out for real and complex payloads, but not bf16"
    return _unless_few(shape, dimension)


def _unless_few(shape: Sequence[int], axis: int) -> Reason:
    if not 2 <= shape[axis] <= _MAX_SORTED:
        return f"it is written out for 2 to {_MAX_SORTED} elements"
    return written_out.unless_up_to(_MAX_ELEMENTS_SORTED, shape, "elements")


def _sort(*operands: jax.Array, dimension: int) -> list[jax.Array]:
    """Sorts as JAX does: zeros of both signs, and all NaNs, are equal."""
    rows = [jnp.moveaxis(x, dimension, -1) for x in operands]
    key = rows[0]

    def first(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether `x` comes before `y`, and whether it may."""
        if not jnp.issubdtype(x.dtype, np.floating):
            return lax.lt(x, y), lax.le(x, y)
        is_last = lax.ne(y, y)
        return (
            lax.lt(x, y) | (is_last & lax.eq(x, x)),
            lax.le(x, y) | is_last,
        )

    if key.shape[-1] == 2:  # much less for XLA to compile
        left, right = _halves(key)
        swaps = first(right, left)[0]
        ordered = [_swapped(x, swaps) for x in rows]
    else:
        place = _places(key, first)
        ordered = [_placed(x, place) for x in rows]
    return [jnp.moveaxis(x, -1, dimension) for x in ordered]


def _halves(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    left, right = (lax.slice_in_dim(x, i, i + 1, axis=-1) for i in range(2))
    return left, right


def _swapped(x: jax.Array, swaps: jax.Array) -> jax.Array:
    """The two elements of each row, the second first where it `swaps`."""
    left, right = _halves(x)
    both = lax.select(swaps, right, left), lax.select(swaps, left, right)
    return lax.concatenate(both, x.ndim - 1)


def _places(
    key: jax.Array,
    first: Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]],
) -> jax.Array:
    """Counts the elements before each; of equal ones, those on the left."""
    n = key.shape[-1]
    square = (*key.shape, n)
    ones = lax.broadcast_in_dim(key, square, range(key.ndim))
    others = lax.broadcast_in_dim(key, square, [*range(key.ndim - 1), key.ndim])
    before, may_be_before = first(others, ones)
    i, j = (
        lax.broadcasted_iota(np.int32, square, key.ndim - k) for k in (1, 0)
    )
    comes_before = lax.select(lax.lt(j, i), may_be_before, before)
    places = jnp.sum(comes_before, -1, dtype=np.int32)
    kept: jax.Array = lax.optimization_barrier(places)
    return kept


def _placed(x: jax.Array, place: jax.Array, count: int = 0) -> jax.Array:
    """The elements, each at its place; the first `count` of them."""
    if jnp.issubdtype(x.dtype, np.complexfloating):
        real, imag = (_placed(y, place, count) for y in (x.real, x.imag))
        return lax.complex(real, imag)
    n = x.shape[-1]
    square = (*x.shape[:-1], count or n, n)
    bits = x
    if jnp.issubdtype(x.dtype, np.floating):
        unsigned = np.dtype(f"uint{x.dtype.itemsize * 8}")
        bits = lax.bitcast_convert_type(x, unsigned)
    wide = [*range(x.ndim - 1), x.ndim]
    is_here = lax.eq(
        lax.broadcast_in_dim(place, square, wide),
        lax.broadcasted_iota(np.int32, square, x.ndim - 1),
    )
    spread = lax.broadcast_in_dim(bits, square, wide)
    alone = lax.select(is_here, spread, lax.full_like(spread, 0))
    # At most one of them is not zero.
    found = lax.reduce(
        alone, np.zeros((), bits.dtype), lax.bitwise_or, [x.ndim]
    )
    return found if bits is x else lax.bitcast_convert_type(found, x.dtype)


def _covers_top_k(
    x: ShapedArray, *, axis: int, k: object, is_stable: bool = True
) -> Reason:
    del is_stable  # as `sorting.TOP_K`
    if str(x.dtype) not in _KEYS:
        return f"it is not written out for {x.dtype}"
    if not isinstance(k, int) or not k:
        return "k is symbolic, or zero"
    return _unless_few(x.shape, axis)


def _top_k(x: jax.Array, *, axis: int, k: int) -> list[jax.Array]:
    """Orders floats by their bits, the sign first, as XLA does."""
    x = jnp.moveaxis(x, axis, -1)
    key = x
    if jnp.issubdtype(x.dtype, np.floating):
        signed = np.dtype(f"int{x.dtype.itemsize * 8}")
        bits = lax.bitcast_convert_type(x, signed)
        rest = lax.full_like(bits, np.iinfo(signed).max)
        key = lax.select(bits < 0, bits ^ rest, bits)
    place = _places(key, lambda y, z: (lax.gt(y, z), lax.ge(y, z)))
    index = lax.broadcasted_iota(np.int32, x.shape, x.ndim - 1)
    found = (_placed(y, place, k) for y in (x, index))
    return [jnp.moveaxis(y, -1, axis) for y in found]


SORT = written_out.rule(
    *(sorting.SORT.primitive, _covers_sort, _sort),
    exact=True,
)
TOP_K = written_out.rule(
    *(sorting.TOP_K.primitive, _covers_top_k, _top_k),
    exact=True,
)
