"""Factorizations of many small matrices.

`jnp.linalg.solve`, `inv`, `det`, `cholesky`, `jax.scipy.linalg.lu_solve`,
`cho_solve` and their derivatives consist of three primitives. XLA calls LAPACK
for each matrix, which rounds as its build does: results are close.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _dtypes, _loops
from xla_ffi_accelerate._rule import Reason, Rule, Typed
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_accelerate.rules import _matrices, small
from xla_ffi_kit import FfiOp

# The kernels keep a vector of matrices in the first-level cache.
_MAX_ROWS = 16
# Fewer matrices are written out, so that a loop stays one function.
_MAX_WRITTEN_OUT = 48  # elements in all
_MAX_ROWS_WRITTEN_OUT = 4
_MAX_QR_WRITTEN_OUT = 3
# Many are written out too, a loop over the matrices.
_MIN_MANY_QR = 256
_MAX_MANY_QR_ROWS = 8
_MAX_MANY_QR_COLUMNS = 4
_MAX_VECTORS_WRITTEN_OUT = 12
# The kernel takes each vector of a matrix by itself.
_MAX_VECTORS = 64
# From so many on they are written out, a loop over the vectors. If they are the
# rows of an array, only for matrices of few rows.
_MIN_LONG = 8192
_MAX_ROWS_LONG = 5


def _covers(a: ShapedArray) -> Reason:
    rows, columns = a.shape[-2:]
    if rows != columns or not 1 <= rows <= _MAX_ROWS:
        return f"the matrices have more than {_MAX_ROWS} rows, or other columns"
    least = _break_even.size("linalg")
    if math.prod(a.shape[:-2]) < least:
        return f"LAPACK is as fast for fewer than {least} matrices"
    return _dtypes.unless_in(_dtypes.WIDE, a.dtype)


def _num_vectors(b: ShapedArray, left_side: bool) -> int:
    count: int = b.shape[-1 if left_side else -2]
    return count


def _covers_solve(
    a: ShapedArray,
    b: ShapedArray,
    *,
    conjugate_a: bool,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
) -> Reason:
    del conjugate_a, lower, transpose_a, unit_diagonal  # any, of real ones
    if a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2]:
        return "the operands' dtypes or batches differ"
    if not 1 <= _num_vectors(b, left_side) <= _MAX_VECTORS:
        return f"the kernel is for up to {_MAX_VECTORS} vectors"
    return _covers(a)


def _most(rows: int) -> int:
    """So many rows; one less where XLA's limit for a loop is tight."""
    return rows if _loops.has_room() else rows - 1


def _covers_few(a: ShapedArray, most: int | None = None) -> Reason:
    most = most or _most(_MAX_ROWS_WRITTEN_OUT)
    return (
        _dtypes.unless_in(_dtypes.WIDE, a.dtype)
        or small.unless_up_to(most, [max(a.shape[-2:])], "rows")
        or small.unless_up_to(_MAX_WRITTEN_OUT, a.shape, "elements")
    )


def _covers_few_lu(a: ShapedArray) -> Reason:
    if a.shape[-2] != a.shape[-1]:
        return "it is written out for square matrices"
    return _covers_few(a)


def _covers_few_solve(
    a: ShapedArray,
    b: ShapedArray,
    *,
    conjugate_a: bool,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
) -> Reason:
    del conjugate_a, lower, transpose_a, unit_diagonal  # any, of real ones
    vectors = [_num_vectors(b, left_side)]
    return _covers_few(a) or small.unless_up_to(
        _MAX_VECTORS_WRITTEN_OUT, vectors, "vectors"
    )


def _covers_long_solve(
    a: ShapedArray,
    b: ShapedArray,
    *,
    conjugate_a: bool,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
) -> Reason:
    del conjugate_a, lower, transpose_a, unit_diagonal  # any, of real ones
    rows = _MAX_ROWS_LONG if left_side else _MAX_ROWS_WRITTEN_OUT
    if _num_vectors(b, left_side) < _MIN_LONG:
        return f"LAPACK is as fast for fewer than {_MIN_LONG} vectors"
    return small.unless_up_to(rows, a.shape[-1:], "rows") or _dtypes.unless_in(
        _dtypes.WIDE, a.dtype
    )


def _covers_few_qr(
    a: ShapedArray, *, full_matrices: bool, pivoting: bool, use_magma: object
) -> Reason:
    del full_matrices, use_magma  # the latter is about GPUs
    if pivoting:
        return "it is written out without pivots"
    return _covers_few(a, most=_MAX_QR_WRITTEN_OUT)


def _covers_many_qr(
    a: ShapedArray, *, full_matrices: bool, pivoting: bool, use_magma: object
) -> Reason:
    del full_matrices, use_magma  # the latter is about GPUs
    if pivoting:
        return "it is written out without pivots"
    if math.prod(a.shape[:-2]) < _break_even.at_least(_MIN_MANY_QR):
        return f"LAPACK is as fast for fewer than {_MIN_MANY_QR} matrices"
    return (
        _dtypes.unless_in(_dtypes.WIDE, a.dtype)
        or small.unless_up_to(_MAX_MANY_QR_ROWS, a.shape[-2:-1], "rows")
        or small.unless_up_to(_MAX_MANY_QR_COLUMNS, a.shape[-1:], "columns")
    )


def _covers_permutation(
    pivots: ShapedArray, *, permutation_size: int
) -> Reason:
    return small.unless_up_to(
        _MAX_ROWS_WRITTEN_OUT, [permutation_size], "rows"
    ) or small.unless_up_to(_MAX_WRITTEN_OUT, pivots.shape, "pivots")


def _vector(a: Typed, dtype: object = None) -> Typed:
    return jax.ShapeDtypeStruct(a.shape[1:], dtype or a.dtype)


def _op(
    name: str, results: Callable[..., Typed | tuple[Typed, ...]]
) -> FfiOp[Any]:
    target = f"xla_ffi_accelerate.linalg_{name}"
    return FfiOp(target, results=results, libraries=LIBRARIES)


_cholesky_op = _op("cholesky", lambda a: a)
_lu_op = _op("lu", lambda a: (a, *[_vector(a, np.int32)] * 2))
_solve_op: FfiOp[jax.Array] = _op("triangular_solve", lambda a, b, **_: b)


def _solve(
    a: jax.Array,
    b: jax.Array,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    unit_diagonal: bool,
) -> jax.Array:
    return _solve_op(
        *(a, b),
        is_left=int(left_side),
        is_lower=int(lower),
        is_transposed=int(transpose_a),
        is_diagonal_one=int(unit_diagonal),
    )


def _rule(
    name: str, covers: Callable[..., Reason], call: Callable[..., Any]
) -> Rule:
    return Rule(
        *(f"jax.lax.linalg.{name}_p", covers, call),
        exact=False,
        target=f"xla_ffi_accelerate.linalg_{name}",
        # The batch stays where it is sharded.
        partitions=lambda a, *_: len(a.shape) > 2,
    )


_LU, _CHOLESKY, _SOLVE, _QR = (
    f"jax.lax.linalg.{name}_p"
    for name in ("lu", "cholesky", "triangular_solve", "qr")
)
RULES = [
    _rule("lu", _covers, lambda a: _lu_op(a)),
    _rule("cholesky", _covers, lambda a: _cholesky_op(a)),
    _rule("triangular_solve", _covers_solve, _solve),
    small.rule(_LU, _covers_few_lu, _matrices.lu),
    small.rule(_CHOLESKY, _covers_few, _matrices.cholesky),
    small.rule(_SOLVE, _covers_few_solve, _matrices.triangular_solve),
    small.rule(_QR, _covers_few_qr, _matrices.qr),
    small.rule(
        *("lu_pivots_to_permutation", _covers_permutation),
        _matrices.permutation,
    ),
    small.rule(
        *(_SOLVE, _covers_long_solve, _matrices.triangular_solve),
        in_loops=False,
    ),
    small.rule(_QR, _covers_many_qr, _matrices.qr, in_loops=False),
]
