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

# Newton steps from a line that is at most 0.014 off.
_NEWTON_STEPS = {"float32": 2, "float64": 3}


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
    **_: object,
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


def qr(a: jax.Array, *, full_matrices: bool, **_: object) -> list[jax.Array]:
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
    image = lax.select(y[0] >= 0, -norm, norm)
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


def eigh(a: jax.Array, *, lower: bool, **_: object) -> list[jax.Array]:
    """Returns the vectors and values of `eigh_p`, in ascending order."""
    m = elements(a)
    n = len(m)
    half = [m[max(i, j)][min(i, j)] for i in range(n) for j in range(n)]
    if not lower:
        half = [m[min(i, j)][max(i, j)] for i in range(n) for j in range(n)]
    (size,) = _kept(_or_one(_largest(half)))
    half = _kept(*(x / size for x in half))
    s = [half[n * i : n * i + n] for i in range(n)]
    values, vectors = {1: _one, 2: _two, 3: _three}[n](s)
    columns = [[v[i] for v in vectors] for i in range(n)]
    return [matrix(columns), stacked([x * size for x in values], n)]


def _one(s: Matrix) -> tuple[list[jax.Array], Matrix]:
    return [s[0][0]], [[full(s[0][0], 1)]]


def _two(s: Matrix) -> tuple[list[jax.Array], Matrix]:
    """Rotates once."""
    tangent, cosine, sine = _rotation(s[0][0], s[1][1], s[0][1])
    x, y = s[0][0] - tangent * s[0][1], s[1][1] + tangent * s[0][1]
    # A first vector, and one that is a quarter turn ahead.
    is_more = x > y
    x, y = _swap(is_more, x, y)
    u, w = [cosine, -sine], [sine, cosine]
    both = [_swap(is_more, p, q) for p, q in zip(u, w, strict=True)]
    return [x, y], [[p for p, _ in both], [q for _, q in both]]


def _rotation(
    x: jax.Array, y: jax.Array, off: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Tangent, cosine and sine of what makes [[x, off], [off, y]] diagonal."""
    half = (y - x) * 0.5
    root = lax.sqrt(half * half + off * off)
    (tangent,) = _kept(off / _or_one(half + lax.select(half < 0, -root, root)))
    (cosine,) = _kept(lax.rsqrt(tangent * tangent + 1))
    return tangent, cosine, tangent * cosine


def _three(s: Matrix) -> tuple[list[jax.Array], Matrix]:
    """The value that is furthest from the mean, then two in its plane.

    After its mean is taken and its size is one, a matrix has an eigenvalue of
    between sqrt(3) and 2, or of minus that, and sqrt(3) from the others: its
    vector is a well conditioned cross product, whatever the matrix (Eberly,
    "A Robust Eigensolver for 3 x 3 Symmetric Matrices").
    """
    (mean,) = _kept((s[0][0] + s[1][1] + s[2][2]) / 3)
    c = [
        [s[i][j] - mean if i == j else s[i][j] for j in range(3)]
        for i in range(3)
    ]
    (size,) = _kept(_or_one(lax.sqrt(_dot(sum(c, []), sum(c, [])) / 6)))
    flat = _kept(*(x / size for x in sum(c, [])))
    c = [flat[:3], flat[3:6], flat[6:]]
    half = _dot(c[0], _cross(c[1], c[2])) * 0.5
    is_up = half >= 0
    size_half = lax.min(lax.abs(half), full(half, 1))
    root = size_half * (2 - math.sqrt(3)) + math.sqrt(3)
    for _ in range(_NEWTON_STEPS[str(half.dtype)]):
        square = root * root
        step = (root * (square - 3) - 2 * size_half) / (3 * square - 3)
        root = root - step
    (root,) = _kept(lax.select(is_up, root, -root))
    v = _null(
        [
            [c[i][j] - root if i == j else c[i][j] for j in range(3)]
            for i in range(3)
        ]
    )
    u = _across(v)
    w = _cross(v, u)
    cu, cw = ([_dot(row, x) for row in c] for x in (u, w))
    values, turns = _two(
        [[_dot(u, cu), _dot(u, cw)], [_dot(u, cw), _dot(w, cw)]]
    )
    low, high = (
        [p * t[0] + q * t[1] for p, q in zip(u, w, strict=True)] for t in turns
    )
    own = _dot(v, [_dot(row, v) for row in c])
    found = [[*_kept(*low), values[0]], [*_kept(*high), values[1]], [*v, own]]
    first = [[found[i][j] for j in range(4)] for i in (0, 1, 2)]
    last = [[found[i][j] for j in range(4)] for i in (2, 0, 1)]
    chosen = [
        [lax.select(is_up, x, y) for x, y in zip(p, q, strict=True)]
        for p, q in zip(first, last, strict=True)
    ]
    return [p[3] * size + mean for p in chosen], [p[:3] for p in chosen]


def _cross(x: Vector, y: Vector) -> list[jax.Array]:
    return [
        x[(i + 1) % 3] * y[(i + 2) % 3] - x[(i + 2) % 3] * y[(i + 1) % 3]
        for i in range(3)
    ]


def _unit(x: Vector, square: jax.Array) -> list[jax.Array]:
    (scale,) = _kept(lax.rsqrt(square))
    return _kept(*(y * scale for y in x))


def _null(m: Matrix) -> list[jax.Array]:
    """The vector that a matrix of rank two maps to zero."""
    best = _kept(*_cross(m[0], m[1]))
    square = _dot(best, best)
    for rows in ((m[0], m[2]), (m[1], m[2])):
        other = _kept(*_cross(*rows))
        other_square = _dot(other, other)
        is_more = other_square > square
        square = lax.select(is_more, other_square, square)
        pairs = zip(best, other, strict=True)
        best = [lax.select(is_more, y, x) for x, y in pairs]
    return _unit(best, square)


def _across(v: Vector) -> list[jax.Array]:
    """A vector at right angles to one of length one."""
    zero = full(v[0], 0)
    is_first = lax.abs(v[0]) > lax.abs(v[1])
    x = [
        lax.select(is_first, p, q)
        for p, q in zip((-v[2], zero, v[0]), (zero, v[2], -v[1]), strict=True)
    ]
    return _unit(x, _dot(x, x))
