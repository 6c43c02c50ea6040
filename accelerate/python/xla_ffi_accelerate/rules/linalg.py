"""Factorizations of many small matrices.

`jnp.linalg.solve`, `inv`, `det`, `cholesky`, `jax.scipy.linalg.lu_solve`,
`cho_solve` and their derivatives consist of three primitives. XLA calls LAPACK
for each matrix, which rounds as its build does: results are close.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _dtypes, _loops
from xla_ffi_accelerate._rule import Reason, Rule, Typed, params
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


def _covers(a: ShapedArray, **_: object) -> Reason:
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
    a: ShapedArray, b: ShapedArray, *, left_side: bool, **_: object
) -> Reason:
    if a.dtype != b.dtype or a.shape[:-2] != b.shape[:-2]:
        return "the operands' dtypes or batches differ"
    if not 1 <= _num_vectors(b, left_side) <= _MAX_VECTORS:
        return f"the kernel is for up to {_MAX_VECTORS} vectors"
    return _covers(a)


def _most(rows: int) -> int:
    """So many rows; one less where XLA's limit for a loop is tight."""
    return rows if _loops.has_room() else rows - 1


def _covers_few(
    a: ShapedArray, *, most: int | None = None, **_: object
) -> Reason:
    most = most or _most(_MAX_ROWS_WRITTEN_OUT)
    return (
        _dtypes.unless_in(_dtypes.WIDE, a.dtype)
        or small.unless_up_to(most, [max(a.shape[-2:])], "rows")
        or small.unless_up_to(_MAX_WRITTEN_OUT, a.shape, "elements")
    )


def _covers_few_lu(a: ShapedArray, **_: object) -> Reason:
    if a.shape[-2] != a.shape[-1]:
        return "it is written out for square matrices"
    return _covers_few(a)


def _covers_few_solve(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, **_: object
) -> Reason:
    vectors = [_num_vectors(b, left_side)]
    return _covers_few(a) or small.unless_up_to(
        _MAX_VECTORS_WRITTEN_OUT, vectors, "vectors"
    )


def _covers_long_solve(
    a: ShapedArray, b: ShapedArray, *, left_side: bool, **_: object
) -> Reason:
    rows = _MAX_ROWS_LONG if left_side else _MAX_ROWS_WRITTEN_OUT
    if _num_vectors(b, left_side) < _MIN_LONG:
        return f"LAPACK is as fast for fewer than {_MIN_LONG} vectors"
    return small.unless_up_to(rows, a.shape[-1:], "rows") or _dtypes.unless_in(
        _dtypes.WIDE, a.dtype
    )


def _covers_few_qr(
    a: ShapedArray, *, pivoting: bool = False, **_: object
) -> Reason:
    if pivoting:
        return "it is written out without pivots"
    return _covers_few(a, most=_MAX_QR_WRITTEN_OUT)


def _covers_many_qr(
    a: ShapedArray, *, pivoting: bool = False, **_: object
) -> Reason:
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
    **_: object,
) -> jax.Array:
    return _solve_op(
        *(a, b),
        is_left=int(left_side),
        is_lower=int(lower),
        is_transposed=int(transpose_a),
        is_diagonal_one=int(unit_diagonal),
    )


def _rule(
    name: str,
    params: Sequence[frozenset[str]],
    covers: Callable[..., Reason],
    call: Callable[..., Any],
) -> Rule:
    return Rule(
        *(f"jax.lax.linalg.{name}_p", params, covers, call),
        exact=False,
        target=f"xla_ffi_accelerate.linalg_{name}",
        # The batch stays where it is sharded.
        partitions=lambda a, *_, **__: len(a.shape) > 2,
    )


LU = _rule(*("lu", params(), _covers, _lu_op))
CHOLESKY = _rule(
    *("cholesky", params(), _covers),
    _cholesky_op,
)
TRIANGULAR_SOLVE = _rule(
    "triangular_solve",
    params("conjugate_a", "left_side", "lower", "transpose_a", "unit_diagonal"),
    *(_covers_solve, _solve),
)
LONG_SOLVE = small.rule(
    *(TRIANGULAR_SOLVE.primitive, TRIANGULAR_SOLVE.params),
    *(_covers_long_solve, _matrices.triangular_solve),
    in_loops=False,
)
_QR = (
    "jax.lax.linalg.qr_p",
    params("full_matrices", "pivoting", "use_magma"),
)
MANY_QR = small.rule(*_QR, _covers_many_qr, _matrices.qr, in_loops=False)

WRITTEN_OUT = [
    small.rule(LU.primitive, LU.params, _covers_few_lu, _matrices.lu),
    small.rule(
        CHOLESKY.primitive, CHOLESKY.params, _covers_few, _matrices.cholesky
    ),
    small.rule(
        *(TRIANGULAR_SOLVE.primitive, TRIANGULAR_SOLVE.params),
        *(_covers_few_solve, _matrices.triangular_solve),
    ),
    small.rule(*_QR, _covers_few_qr, _matrices.qr),
    small.rule(
        "lu_pivots_to_permutation",
        params("permutation_size"),
        _covers_permutation,
        _matrices.permutation,
    ),
]
