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

from xla_ffi_accelerate import _break_even, _dtypes
from xla_ffi_accelerate._rule import Reason, Rule, Typed
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import FfiOp

# The kernels keep a vector of matrices in the first-level cache.
_MAX_ROWS = 16
# The kernel takes each vector of a matrix by itself.
_MAX_VECTORS = 64


def _covers(a: ShapedArray) -> Reason:
    rows, columns = a.shape[-2:]
    if rows != columns or not 1 <= rows <= _MAX_ROWS:
        return f"the matrices have more than {_MAX_ROWS} rows, or other columns"
    least = _break_even.size("linalg")
    if math.prod(a.shape[:-2]) < least:
        return f"LAPACK is as fast for fewer than {least} matrices"
    return _dtypes.unless_in(_dtypes.WIDE, a.dtype)


def num_vectors(b: ShapedArray, left_side: bool) -> int:
    """Of how many right sides a solve is."""
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
    if not 1 <= num_vectors(b, left_side) <= _MAX_VECTORS:
        return f"the kernel is for up to {_MAX_VECTORS} vectors"
    return _covers(a)


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


RULES = [
    _rule("lu", _covers, lambda a: _lu_op(a)),
    _rule("cholesky", _covers, lambda a: _cholesky_op(a)),
    _rule("triangular_solve", _covers_solve, _solve),
]
