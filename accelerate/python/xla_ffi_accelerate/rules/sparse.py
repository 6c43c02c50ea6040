"""Products of BCOO and of BCSR matrices."""

from __future__ import annotations

import functools
import math
from typing import Any, Protocol

import jax
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _comparisons, _dtypes
from xla_ffi_accelerate._rule import Axes, Reason, Rule, Typed, params
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_accelerate.rules.products import DimensionNumbers
from xla_ffi_kit import FfiOp

# XLA fuses products of a BCOO matrix with few entries into the code around
# them. Of a transposed matrix, whose indices are not sorted, it computes the
# indices as it multiplies; for a handler they are written first, which few
# columns do not pay for.
_FEW_COLUMNS = 8
# Four columns are a vector, which XLA's code takes as fast, unless the sums of
# a row stay in a register for long.
_VECTOR_COLUMNS = 4
_LONG_ROW = 16  # elements
_SORTED_BCOO = 4  # times as many products as BCSR and a vector need
_UNSORTED_BCOO = 64
# JAX itself calls Eigen for the product of a BCSR matrix and a matrix.
_BCSR_BY_EIGEN = 64


def _result(data: Typed, shape: Axes) -> Typed:
    return jax.ShapeDtypeStruct(shape, data.dtype)


_bcoo_op, _bcsr_op = (
    FfiOp(
        f"xla_ffi_accelerate.{name}_dot_general",
        results=result,
        libraries=LIBRARIES,
        attributes={"shape": None},
    )
    for name, result in (
        ("bcoo", lambda x, i, rhs, *, shape, **_: _result(x, shape)),
        ("bcsr", lambda x, i, starts, rhs, *, shape: _result(x, shape)),
    )
)


class _SparseInfo(Protocol):
    """JAX's description of a sparse matrix: its shape, batch axes first."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def indices_sorted(self) -> bool: ...


def _covers_bcoo(
    *avals: ShapedArray,
    dimension_numbers: DimensionNumbers,
    lhs_spinfo: _SparseInfo,
    preferred_element_type: object,
) -> Reason:
    shape = lhs_spinfo.shape
    indices = avals[1].shape
    if indices[-1] != 2 or len(indices) != len(shape):
        return "it is neither a matrix nor a batch of them"
    columns = _columns(avals[-1], dimension_numbers)
    if columns <= _FEW_COLUMNS and not lhs_spinfo.indices_sorted:
        return (
            "the indices are not sorted, and XLA is as fast for up to "
            f"{_FEW_COLUMNS} columns"
        )
    times = _SORTED_BCOO if lhs_spinfo.indices_sorted else _UNSORTED_BCOO
    reason = _covers(
        *(avals, dimension_numbers, preferred_element_type, shape, (0, 1)),
        times=times,
    )
    if reason or columns != _VECTOR_COLUMNS:
        return reason
    contracted = dimension_numbers[0][0][0]
    rows = math.prod(shape[-2:]) // shape[contracted]
    if avals[0].shape[-1] >= _LONG_ROW * rows:
        return None
    return (
        f"XLA is as fast for {columns} columns and fewer than {_LONG_ROW} "
        "elements a row"
    )


def _covers_bcsr(
    *avals: ShapedArray,
    dimension_numbers: DimensionNumbers,
    lhs_spinfo: _SparseInfo,
    preferred_element_type: object,
) -> Reason:
    _, indices, starts, rhs = avals
    shape = lhs_spinfo.shape
    if indices.dtype != starts.dtype or len(indices.shape) != len(shape) - 1:
        return "the indices' dtypes differ, or it is no matrix"
    is_by_eigen = len(shape) == 2 and _columns(rhs, dimension_numbers) > 1
    return _covers(
        *(avals, dimension_numbers, preferred_element_type, shape, (1,)),
        times=_BCSR_BY_EIGEN if is_by_eigen else 1,
    )


def _columns(rhs: ShapedArray, numbers: DimensionNumbers) -> int:
    """By how many columns a matrix, or each of a batch, is multiplied."""
    axes = (*numbers[0][1], *numbers[1][1])
    return math.prod(n for i, n in enumerate(rhs.shape) if i not in axes)


def _covers(
    avals: tuple[ShapedArray, ...],
    numbers: DimensionNumbers,
    preferred: object,
    shape: tuple[int, ...],
    contracted: Axes,
    times: int = 1,
) -> Reason:
    """`contracted`: which dimensions may be summed over."""
    data, indices, *_, rhs = avals
    (lhs_contracting, rhs_contracting), (lhs_batch, _) = numbers
    batch = len(shape) - 2
    lead = shape[:batch]
    if (
        len(lhs_contracting) != 1
        or lhs_contracting[0] - batch not in contracted
        or list(lhs_batch) not in ([], list(range(batch)))
    ):
        return "the kernel sums over another axis"
    if len(data.shape) != batch + 1:
        return "the matrix has dense dimensions"
    if (
        str(data.dtype) not in _dtypes.WIDE
        or rhs.dtype != data.dtype
        or preferred not in (None, data.dtype)
        or str(indices.dtype) not in ("int32", "int64")
    ):
        return "the kernel has only f32 and f64 with indices of 32 or 64 bits"
    entries, length = data.shape[-1], rhs.shape[rhs_contracting[0]]
    if entries == 1:  # nor has a sum of -0.0 and nothing the sign of 0.0
        return "XLA adds nothing to the products of one element"
    if (
        any(x.shape[:batch] not in (lead, (1,) * batch) for x in avals[:-1])
        or not length
        or indices.shape[batch] != entries
    ):
        return "some batch dimensions are shared, and some are not"
    work = math.prod(lead) * entries * (rhs.size // length)
    if lhs_batch:
        work //= math.prod(lead)
    least = _break_even.size("sparse product") * times
    return _break_even.unless_at_least(least, work, "products")


def _multiply(
    *operands: jax.Array,
    op: FfiOp[jax.Array],
    dimension_numbers: DimensionNumbers,
    lhs_spinfo: _SparseInfo,
    **__: object,
) -> jax.Array:
    """Calls the handler, which takes one batch dimension."""
    shape = lhs_spinfo.shape
    (lhs_contracting, rhs_contracting), (_, rhs_batch) = dimension_numbers
    batch = len(shape) - 2
    lead, rows = shape[:batch], shape[2 * batch + 1 - lhs_contracting[0]]
    first = (*rhs_batch, *rhs_contracting)
    rhs = operands[-1]
    kept = [i for i in range(rhs.ndim) if i not in first]
    columns = [rhs.shape[i] for i in kept]
    rhs = rhs.transpose((*first, *kept))
    count = math.prod(rhs.shape[: len(rhs_batch)])
    result = math.prod(lead), rows, math.prod(columns)
    attributes: dict[str, Any] = {}
    if op is _bcoo_op:
        attributes["contracting"] = lhs_contracting[0] - batch
    products = op(
        *(
            x.reshape(math.prod(x.shape[:batch]), *x.shape[batch:])
            for x in operands[:-1]
        ),
        rhs.reshape(count, rhs.shape[len(rhs_batch)], math.prod(columns)),
        shape=result,
        **attributes,
    )
    return products.reshape([*lead, rows, *columns])


def _rule(name: str, module: str = "") -> Rule:
    is_bcoo = name == "bcoo"
    op = _bcoo_op if is_bcoo else _bcsr_op
    return Rule(
        f"jax.experimental.sparse{module}.{name}_dot_general_p",
        params("dimension_numbers", "lhs_spinfo", "preferred_element_type"),
        _covers_bcoo if is_bcoo else _covers_bcsr,
        functools.partial(_multiply, op=op),
        target=op.name,
        test=_comparisons.BCOO if is_bcoo else _comparisons.BCSR,
    )


BCOO = _rule("bcoo")
# It is not among the names of the package.
BCSR = _rule("bcsr", module=".bcsr")
