"""What products of BCOO and of BCSR matrices have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _plain
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

# Break-even number of products and additions.
_MIN_WORK = 256

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
Axes: TypeAlias = Sequence[int]
# ((contracting of lhs, of rhs), (batch of lhs, of rhs)), as JAX has it.
DimensionNumbers: TypeAlias = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]


class SparseInfo(Protocol):
    """What JAX says of a sparse matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """With its batch dimensions in front."""

    @property
    def indices_sorted(self) -> bool:
        """Whether they are known to be."""


class SparseRule:
    """What the rules have in common."""

    RESULT: Result = "exact"
    PARAMETERS = (
        frozenset(
            {"dimension_numbers", "lhs_spinfo", "preferred_element_type"}
        ),
    )
    MODULE = "jax.experimental.sparse"
    # Releases of jaxlib in which products are rounded, and added in the order
    # in which they are stored.
    VERIFIED = frozenset({"0.8.1", "0.9.2", "0.10.2", "0.12.0.1"})

    def partitions(self, *_: object, **__: object) -> bool:
        """Whether sharded operands stay in place."""
        return False


def covers(
    avals: Sequence[ShapedArray],
    numbers: DimensionNumbers,
    preferred: object,
    shape: tuple[int, ...],
    contracted: Axes,
) -> bool:
    """Whether the handler multiplies such operands as XLA's own code does.

    Args:
      avals: data, indices with or without others, and the dense operand.
      numbers: the product's.
      preferred: the dtype that the result shall have.
      shape: of the sparse operand.
      contracted: which dimensions of a matrix may be summed over.
    """
    data, indices, *_, rhs = avals
    (lhs_contracting, rhs_contracting), (lhs_batch, _) = numbers
    batch = len(shape) - 2
    if (
        len(lhs_contracting) != 1
        or lhs_contracting[0] - batch not in contracted
    ):
        return False
    if len(data.shape) != batch + 1:
        return False  # dense dimensions
    if list(lhs_batch) not in ([], list(range(batch))):
        return False
    if str(data.dtype) not in ("float32", "float64") or not (
        preferred in (None, data.dtype) and rhs.dtype == data.dtype
    ):
        return False
    if str(indices.dtype) not in ("int32", "int64"):
        return False
    leads = [x.shape[:batch] for x in avals[:-1]]
    if any(lead not in (shape[:batch], (1,) * batch) for lead in leads):
        return False  # some dimensions are shared, and some are not
    entries, length = data.shape[-1], rhs.shape[rhs_contracting[0]]
    if not length or indices.shape[batch] != entries:
        return False
    work: int = math.prod(shape[:batch]) * entries * (rhs.size // length)
    if lhs_batch:
        work //= math.prod(shape[:batch])
    return work >= _MIN_WORK


def lower(
    target: str,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    dimension_numbers: DimensionNumbers,
    shape: tuple[int, ...],
    **attributes: object,
) -> Lowered:
    """Lowers to the handler `target`, which takes one batch dimension."""
    (lhs_contracting, rhs_contracting), (_, rhs_batch) = dimension_numbers
    batch = len(shape) - 2
    rows = shape[2 * batch + 1 - lhs_contracting[0]]
    result = lowering.shaped(ctx.avals_out)[0]
    lowering.register(CPU_LIBRARY, target)

    def multiply(*arrays: jax.Array) -> list[jax.Array]:
        lhs = [_one_batch_dimension(x, batch) for x in arrays[:-1]]
        first = (*rhs_batch, *rhs_contracting)
        rest = [i for i in range(arrays[-1].ndim) if i not in first]
        rhs = arrays[-1].transpose((*first, *rest))
        columns = math.prod(rhs.shape[len(first) :])
        count = math.prod(rhs.shape[: len(rhs_batch)])
        rhs = rhs.reshape(count, rhs.shape[len(rhs_batch)], columns)
        call = jax.ffi.ffi_call(
            target,
            jax.ShapeDtypeStruct(
                (math.prod(shape[:batch]), rows, columns), rhs.dtype
            ),
        )
        products: jax.Array = call(*lhs, rhs, **attributes)
        return [products.reshape(result.shape)]

    return _plain.lower(multiply, ctx, *operands)


def _one_batch_dimension(x: jax.Array, batch: int) -> jax.Array:
    return x.reshape(math.prod(x.shape[:batch]), *x.shape[batch:])


def elements(rows: int, columns: int, count: int) -> tuple[Array, Array, Array]:
    """Of a matrix, for self-tests: data, sorted coordinates, another matrix."""
    random = np.random.default_rng(0)
    places = np.stack(
        [
            np.sort(random.integers(0, rows, count)),
            random.integers(0, columns, count),
        ],
        axis=1,
    )
    data = random.standard_normal(count, np.float32)
    rhs = random.standard_normal((columns, 19), np.float32)
    return data, places.astype(np.int32), rhs
