"""Lowers JAX's factorizations of many small matrices to the kit's handlers.

`jnp.linalg.solve`, `inv`, `det`, `cholesky`, `jax.scipy.linalg.lu_solve`,
`cho_solve` and their derivatives consist of these three primitives. LAPACK,
which XLA calls for each matrix, rounds as its build does: results are close.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax_rules
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

# The kernels keep a vector of matrices in the first-level cache.
_MAX_ROWS = 8
# Break-even: XLA's own code is as fast for fewer matrices.
_MIN_MATRICES = 4
# Rotations take the cube of the rows, and more sweeps.
_MAX_EIGH_ROWS = 4
# For more vectors LAPACK's blocks are as fast.
_MAX_VECTORS = 64


class _Rule:
    """What the rules have in common."""

    RESULT: Result = "close"

    def __init__(self, primitive: str, target: str) -> None:
        self._primitive = primitive
        self.TARGET = target

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive(self._primitive, jax.lax.linalg)

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """Whether sharded operands stay in place: the batch does."""
        return len(avals[0].shape) > 2

    def _lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **attributes: np.int64,
    ) -> Lowered:
        lowering.register(CPU_LIBRARY, self.TARGET)
        build = jax.ffi.build_ffi_lowering_function(self.TARGET)
        call = build(ctx, *operands, **attributes)
        operand_avals = lowering.shaped(ctx.avals_in)
        lowering.annotate_batch(
            call,
            operand_avals[0].shape[:-2],
            [aval.shape for aval in operand_avals],
            [aval.shape for aval in lowering.shaped(ctx.avals_out)],
        )
        results: Lowered = call.results
        return results


def _are_small(a: ShapedArray) -> bool:
    rows, columns = a.shape[-2:]
    return (
        str(a.dtype) in ("float32", "float64")
        and rows == columns
        and 1 <= rows <= _MAX_ROWS
        and math.prod(a.shape[:-2]) >= _MIN_MATRICES
    )


class Factorization(_Rule):
    """The rule of `lu_p` or `cholesky_p`."""

    PARAMETERS = (frozenset[str](),)

    def covers(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """Whether the matrices are many, small and square."""
        return _are_small(avals[0])

    def lower(
        self, ctx: LoweringRuleContext, *operands: ir.Value, **_: object
    ) -> Lowered:
        """Lowers factorizations that the handler covers."""
        return self._lower(ctx, *operands)


class TriangularSolve(_Rule):
    """The rule of `triangular_solve_p`."""

    PARAMETERS = (
        frozenset(
            {
                "conjugate_a",
                "left_side",
                "lower",
                "transpose_a",
                "unit_diagonal",
            }
        ),
    )

    def covers(
        self, avals: Sequence[ShapedArray], *, left_side: bool, **_: object
    ) -> bool:
        """Whether the matrices are many, small and square."""
        a, b = avals
        vectors = b.shape[-1 if left_side else -2]
        return (
            _are_small(a)
            and a.dtype == b.dtype
            and a.shape[:-2] == b.shape[:-2]
            and 1 <= vectors <= _MAX_VECTORS
        )

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        left_side: bool,
        lower: bool,
        transpose_a: bool,
        unit_diagonal: bool,
        **_: object,
    ) -> Lowered:
        """Lowers solves that the handler covers."""
        return self._lower(
            ctx,
            *operands,
            is_left=np.int64(left_side),
            is_lower=np.int64(lower),
            is_transposed=np.int64(transpose_a),
            is_diagonal_one=np.int64(unit_diagonal),
        )


class Eigh(_Rule):
    """The rule of `eigh_p`: the vectors may have other signs than LAPACK's."""

    PARAMETERS = (
        frozenset(
            {"algorithm", "lower", "sort_eigenvalues", "subset_by_index"}
        ),
    )

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        algorithm: object,
        subset_by_index: tuple[int, int] | None,
        **_: object,
    ) -> bool:
        """Whether all vectors of many small matrices are asked for."""
        (a,) = avals
        return (
            algorithm is None
            and subset_by_index in (None, (0, a.shape[-1]))
            and a.shape[-1] <= _MAX_EIGH_ROWS
            and _are_small(a)
        )

    def lower(
        self, ctx: LoweringRuleContext, a: ir.Value, *, lower: bool, **_: object
    ) -> Lowered:
        """Lowers decompositions that the handler covers."""
        return self._lower(ctx, a, is_lower=np.int64(lower))


EIGH = Eigh("eigh_p", "xla_ffi_accelerate.linalg_eigh")
RULES = (
    Factorization("lu_p", "xla_ffi_accelerate.linalg_lu"),
    Factorization("cholesky_p", "xla_ffi_accelerate.linalg_cholesky"),
    TriangularSolve(
        "triangular_solve_p", "xla_ffi_accelerate.linalg_triangular_solve"
    ),
)
