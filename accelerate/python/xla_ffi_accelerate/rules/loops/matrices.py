"""Factorizations of small matrices, written out element by element.

A matrix is a list of rows of arrays, one for each element, which have only the
batch axes. A value with several uses is kept (`_kept`), because XLA would
compute it again for each use.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax import lax

Matrix: TypeAlias = list[list[jax.Array]]
Pair: TypeAlias = tuple[jax.Array, jax.Array]
Vector: TypeAlias = Sequence[jax.Array]


def elements(a: jax.Array) -> Matrix:
    """The elements of matrices."""
    rows, columns = a.shape[-2:]
    return [[at(a, i, j) for j in range(columns)] for i in range(rows)]


def at(a: jax.Array, *index: int) -> jax.Array:
    """The elements at the indices of the last axes, with only the others."""
    batch = a.ndim - len(index)
    start = (*(0,) * batch, *index)
    end = (*a.shape[:batch], *(i + 1 for i in index))
    return lax.squeeze(lax.slice(a, start, end), range(batch, a.ndim))


def stacked(elements: Sequence[jax.Array], *shape: int) -> jax.Array:
    """Arrays, one for each element, as one with the axes `shape` behind."""
    batch = elements[0].shape
    one = [lax.expand_dims(x, (len(batch),)) for x in elements]
    joined = lax.concatenate(one, len(batch))
    return lax.reshape(joined, (*batch, *shape))


def matrix(m: Matrix) -> jax.Array:
    """Returns a matrix from the elements of `elements`."""
    return stacked([x for row in m for x in row], len(m), len(m[0]))


def full(x: jax.Array, value: float) -> jax.Array:
    """An array like `x` of one value."""
    return lax.full_like(x, value)


def _kept(*arrays: jax.Array) -> list[jax.Array]:
    return list(lax.optimization_barrier(arrays)) if arrays else []


def _or_one(x: jax.Array) -> jax.Array:
    """`x`, where it divides: one for zero."""
    return lax.select(x == 0, full(x, 1), x)


def _is_negative(x: jax.Array) -> jax.Array:
    """Where the sign of `x` is, of zeros too."""
    bits = lax.bitcast_convert_type(x, np.dtype(f"i{x.dtype.itemsize}"))
    return bits < 0


def _swap(here: jax.Array, x: jax.Array, y: jax.Array) -> Pair:
    return lax.select(here, y, x), lax.select(here, x, y)


def _dot(x: Vector, y: Vector) -> jax.Array:
    total = x[0] * y[0]
    for i in range(1, len(x)):
        total = total + x[i] * y[i]
    return total


def _largest(elements: Vector) -> jax.Array:
    """The absolute value of the largest; NaN if there is any."""
    found = lax.abs(elements[0])
    for x in elements[1:]:
        found = lax.max(found, lax.abs(x))
    return found


def lu(a: jax.Array) -> list[jax.Array]:
    """Returns factors, pivots and permutation of `lu_p`, as LAPACK does."""
    m = elements(a)
    n = len(m)
    index = lax.full_like(m[0][0], 0, np.int32)
    order = [full(index, i) for i in range(n)]
    pivots: list[jax.Array] = []
    for k in range(n):
        pivot, most = full(index, k), lax.abs(m[k][k])
        for i in range(k + 1, n):
            size = lax.abs(m[i][k])
            is_more = size > most
            most = lax.select(is_more, size, most)
            pivot = lax.select(is_more, full(pivot, i), pivot)
        (pivot,) = _kept(pivot)
        pivots.append(pivot)
        for i in range(k + 1, n):
            here = pivot == i
            order[k], order[i] = _swap(here, order[k], order[i])
            for j in range(n):
                m[k][j], m[i][j] = _swap(here, m[k][j], m[i][j])
        m[k] = _kept(*m[k])
        for i in range(k + 1, n):
            (m[i][k],) = _kept(m[i][k] / _or_one(m[k][k]))
            rest = range(k + 1, n)
            m[i][k + 1 :] = _kept(*(m[i][j] - m[i][k] * m[k][j] for j in rest))
    return [matrix(m), stacked(pivots, n), stacked(order, n)]


def permutation(pivots: jax.Array, *, permutation_size: int) -> jax.Array:
    """Returns the permutation of `lu_pivots_to_permutation_p`."""
    count = pivots.shape[-1]
    swaps = [at(pivots, k) for k in range(count)]
    order = [full(swaps[0], i) for i in range(permutation_size)]
    for k, pivot in enumerate(swaps):
        for i in range(k + 1, permutation_size):
            order[k], order[i] = _swap(pivot == i, order[k], order[i])
    return stacked(order, permutation_size)


def cholesky(a: jax.Array) -> jax.Array:
    """Returns the factor of `cholesky_p`; NaN unless `a` is positive definite.

    A NaN in it stays in its part of the factor, as with LAPACK.
    """
    m = elements(a)
    n = len(m)
    zero = full(m[0][0], 0)
    factor: Matrix = [[zero] * n for _ in range(n)]
    is_other = lax.full_like(zero, False, bool)
    for j in range(n):
        square = m[j][j]
        if j:
            square = square - _dot(factor[j][:j], factor[j][:j])
        is_other = is_other | (square <= 0)
        (root,) = _kept(lax.sqrt(square))
        factor[j][j] = root
        for i in range(j + 1, n):
            x = m[i][j]
            if j:
                x = x - _dot(factor[i][:j], factor[j][:j])
            (factor[i][j],) = _kept(x / root)
    nan = full(zero, math.nan)
    for i in range(n):
        for j in range(i + 1):
            factor[i][j] = lax.select(is_other, nan, factor[i][j])
    return matrix(factor)


def triangular_solve(
    a: jax.Array,
    b: jax.Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
) -> jax.Array:
    """Returns the solution of `triangular_solve_p`, for real matrices."""
    m = elements(a)
    n = len(m)
    axis = b.ndim - 2 if left_side else b.ndim - 1
    x = [lax.index_in_dim(b, i, axis, keepdims=False) for i in range(n)]
    is_transposed = transpose_a == left_side
    for i in range(n) if lower != is_transposed else reversed(range(n)):
        others = range(i) if lower != is_transposed else range(i + 1, n)
        for j in others:
            factor = m[j][i] if is_transposed else m[i][j]
            x[i] = x[i] - _wide(factor, x[i]) * x[j]
        if not unit_diagonal:
            x[i] = x[i] / _wide(m[i][i], x[i])
        (x[i],) = _kept(x[i])
    return lax.concatenate([lax.expand_dims(y, (axis,)) for y in x], axis)


def _wide(x: jax.Array, like: jax.Array) -> jax.Array:
    """Broadcasts an element of each matrix to all of its vectors."""
    return lax.broadcast_in_dim(x, like.shape, range(x.ndim))


def qr(a: jax.Array, *, full_matrices: bool) -> list[jax.Array]:
    """Returns the factors of `qr_p`, by reflections, with LAPACK's signs."""
    m = elements(a)
    rows, columns = len(m), len(m[0])
    count = min(rows, columns)
    zero = full(m[0][0], 0)
    reflections: list[tuple[list[jax.Array], jax.Array]] = []
    for k in range(min(count, rows - 1)):
        v, scale, m[k][k] = _reflection([m[i][k] for i in range(k, rows)])
        reflections.append((v, scale))
        for i in range(k + 1, rows):
            m[i][k] = zero
        for j in range(k + 1, columns):
            _reflect(v, scale, m, k, j)
    width = rows if full_matrices else count
    one = full(zero, 1)
    q = [[one if i == j else zero for j in range(width)] for i in range(rows)]
    for k, (v, scale) in reversed(list(enumerate(reflections))):
        for j in range(k, width):
            _reflect(v, scale, q, k, j)
    return [matrix(q), matrix(m[:width])]


def _reflection(
    x: Sequence[jax.Array],
) -> tuple[list[jax.Array], jax.Array, jax.Array]:
    """The reflection of `x` to the first axis: v, 2 / v.v, and the multiple."""
    size = _or_one(_largest(x))
    y = [z / size for z in x]
    norm = lax.sqrt(_dot(y, y))
    is_done = _largest(y[1:]) == 0
    image = lax.select(_is_negative(y[0]), norm, -norm)
    first, image = _kept(y[0] - image, image)
    scale = lax.select(is_done, full(first, 0), -1 / _or_one(image * first))
    (scale,) = _kept(scale)
    return [first, *y[1:]], scale, lax.select(is_done, x[0], image * size)


def _reflect(
    v: Sequence[jax.Array], scale: jax.Array, m: Matrix, k: int, j: int
) -> None:
    """Reflects the part from row `k` on of column `j`."""
    (part,) = _kept(scale * _dot(v, [m[k + i][j] for i in range(len(v))]))
    column = [m[k + i][j] - part * v[i] for i in range(len(v))]
    for i, x in enumerate(_kept(*column)):
        m[k + i][j] = x
