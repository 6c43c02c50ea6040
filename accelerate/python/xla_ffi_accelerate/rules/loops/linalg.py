"""Factorizations and solves of a few small matrices, written out.

And those of many matrices or vectors that XLA makes a loop of. LAPACK rounds as
its build does: results are close.
"""

from __future__ import annotations

import math

from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _dtypes, _loops
from xla_ffi_accelerate._rule import Reason
from xla_ffi_accelerate.rules.handlers.linalg import num_vectors
from xla_ffi_accelerate.rules.loops import matrices, written_out

# Fewer matrices are written out, so that a loop stays one function.
_MAX_WRITTEN_OUT = 48  # elements in all
_MAX_ROWS_WRITTEN_OUT = 4
_MAX_QR_WRITTEN_OUT = 3
_MAX_VECTORS_WRITTEN_OUT = 12
# Many are written out too, a loop over the matrices.
_MIN_MANY_QR = 256
_MAX_MANY_QR_ROWS = 8
_MAX_MANY_QR_COLUMNS = 4
# From so many vectors on they are written out, a loop over the vectors. If they
# are the rows of an array, only for matrices of few rows.
_MIN_LONG = 8192
_MAX_ROWS_LONG = 5


def _most(rows: int) -> int:
    """So many rows; one less where XLA's limit for a loop is tight."""
    return rows if _loops.has_room() else rows - 1


def _covers_few(a: ShapedArray, most: int | None = None) -> Reason:
    most = most or _most(_MAX_ROWS_WRITTEN_OUT)
    return (
        _dtypes.unless_in(_dtypes.WIDE, a.dtype)
        or written_out.unless_up_to(most, [max(a.shape[-2:])], "rows")
        or written_out.unless_up_to(_MAX_WRITTEN_OUT, a.shape, "elements")
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
    vectors = [num_vectors(b, left_side)]
    return _covers_few(a) or written_out.unless_up_to(
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
    if num_vectors(b, left_side) < _MIN_LONG:
        return f"LAPACK is as fast for fewer than {_MIN_LONG} vectors"
    return written_out.unless_up_to(
        rows, a.shape[-1:], "rows"
    ) or _dtypes.unless_in(_dtypes.WIDE, a.dtype)


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
        or written_out.unless_up_to(_MAX_MANY_QR_ROWS, a.shape[-2:-1], "rows")
        or written_out.unless_up_to(
            _MAX_MANY_QR_COLUMNS, a.shape[-1:], "columns"
        )
    )


def _covers_permutation(
    pivots: ShapedArray, *, permutation_size: int
) -> Reason:
    return written_out.unless_up_to(
        _MAX_ROWS_WRITTEN_OUT, [permutation_size], "rows"
    ) or written_out.unless_up_to(_MAX_WRITTEN_OUT, pivots.shape, "pivots")


_LU, _CHOLESKY, _SOLVE, _QR = (
    f"jax.lax.linalg.{name}_p"
    for name in ("lu", "cholesky", "triangular_solve", "qr")
)
RULES = [
    written_out.rule(_LU, _covers_few_lu, matrices.lu),
    written_out.rule(_CHOLESKY, _covers_few, matrices.cholesky),
    written_out.rule(_SOLVE, _covers_few_solve, matrices.triangular_solve),
    written_out.rule(_QR, _covers_few_qr, matrices.qr),
    written_out.rule(
        *("lu_pivots_to_permutation", _covers_permutation),
        matrices.permutation,
    ),
    written_out.rule(
        *(_SOLVE, _covers_long_solve, matrices.triangular_solve),
        in_loops=False,
    ),
    written_out.rule(_QR, _covers_many_qr, matrices.qr, in_loops=False),
]
