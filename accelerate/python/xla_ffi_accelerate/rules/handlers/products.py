"""Products of many small matrices.

XLA calls a library for each of them. The order in which the library adds
depends on its release, the processor, the dtype and the sizes. When a program
is lowered, XLA's own code is therefore run once for each dtype and sizes. If
XLA adds in an order that the handler does not have, the product stays with XLA.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _comparisons, _loops
from xla_ffi_accelerate._rule import Axes, Reason, Rule, Typed
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import Advanced, FfiOp

Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.generic]]
# ((contracting of lhs, of rhs), (batch of lhs, of rhs)), as JAX has it.
DimensionNumbers: TypeAlias = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]
# Matrices, rows, products of a sum, columns.
Sizes: TypeAlias = tuple[int, int, int, int]

_TARGET = "xla_ffi_accelerate.dot_general"

# Break-even sizes: where the sums are shorter, or the result has fewer rows and
# columns, XLA has loops of its own in place of the calls; it multiplies several
# larger matrices at once. There the handler is as fast or slower, and so it is
# with a few matrices.
_MIN_COUNT = 8
_MIN_PRODUCTS = 4
_MIN_ROWS_OR_COLUMNS = 4
_MAX_SIZE = 7


def covers(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    why_not: Callable[[Sizes, str], Reason],
    dimension_numbers: DimensionNumbers,
    out_sharding: object,
    precision: object,
    preferred_element_type: np.dtype[np.generic] | None,
) -> Reason:
    """As `Rule.covers`, if `why_not` has no reason for the sizes and dtype."""
    dtype = str(lhs.dtype)
    preferred = str(np.dtype(preferred_element_type or dtype))
    if {dtype, str(rhs.dtype), preferred} not in ({"float32"}, {"float64"}):
        return "the kernel has only f32 and f64, for operands and result"
    given = precision if isinstance(precision, tuple) else (precision,)
    if any(
        p is not None and not isinstance(p, jax.lax.Precision) for p in given
    ):
        return "another precision than the CPU's is asked for"
    if out_sharding is not None:
        return "the result's sharding is asked for"
    sizes = _comparisons.product_sizes(lhs, rhs, dimension_numbers)
    return why_not(sizes, dtype)


def _why_not_called(sizes: Sizes, dtype: str) -> Reason:
    count, m, k, n = sizes
    if max(m, k, n) > _MAX_SIZE:
        return f"XLA is as fast for matrices beyond {_MAX_SIZE} rows or columns"
    if (
        count < _MIN_COUNT
        or min(m, n) <= 1
        or max(m, n) < _MIN_ROWS_OR_COLUMNS
        or k < _MIN_PRODUCTS
    ):
        return as_fast(*sizes)
    # The self-test has no such loop, in which XLA writes the product out.
    elements = count * (m * k + k * n + m * n)
    size = elements * np.dtype(dtype).itemsize
    is_small = _loops.is_widened() and size <= _loops.BYTES
    if is_small and _loops.inside():
        return "in a loop that is one function, XLA adds in another order"
    return None


def as_fast(count: int, m: int, k: int, n: int) -> str:
    """The reason of sizes that XLA is fast for."""
    return f"XLA is as fast for {count} products of {m} x {k} and {k} x {n}"


@functools.cache
def _op(lhs_axes: int, rhs_axes: int) -> FfiOp[jax.Array]:
    """The product of operands with so many axes after those of their batch.

    `numbers` counts them without these.
    """

    def result(
        lhs: Typed, rhs: Typed, *, numbers: DimensionNumbers, order: str
    ) -> Typed:
        shape = [lhs.shape[i] for i in numbers[1][0]]
        for x, *axes in zip((lhs, rhs), *numbers, strict=True):
            shape += [x.shape[i] for i in others(x, *axes[0], *axes[1])]
        return jax.ShapeDtypeStruct(shape, lhs.dtype)

    def attributes(
        lhs: Typed, rhs: Typed, *, numbers: DimensionNumbers, order: str
    ) -> dict[str, Array]:
        count = len(lhs.shape) - lhs_axes
        contracting, batch = (
            [np.array([i + count for i in axes], np.int64) for axes in pair]
            for pair in numbers
        )
        lead = np.arange(count)
        return {
            "lhs_batch": np.append(lead, batch[0]),
            "rhs_batch": np.append(lead, batch[1]),
            "lhs_contracting": contracting[0],
            "rhs_contracting": contracting[1],
        }

    sides = (
        ",".join(f"{side}{i}" for i in range(count))
        for side, count in (("l", lhs_axes), ("r", rhs_axes))
    )
    return FfiOp(
        _TARGET,
        results=result,
        axes="({}),({})->".format(*sides),
        libraries=LIBRARIES,
        attributes={"numbers": None},
        advanced=Advanced(shape_attributes=attributes),
    )


def _multiply(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
    order: str,
) -> jax.Array:
    contracting, batch = dimension_numbers
    count = 0
    if _splits(dimension_numbers):
        count, batch = len(batch[0]), ((), ())
    numbers = tuple(
        tuple(tuple(i - count for i in axes) for axes in pair)
        for pair in (contracting, batch)
    )
    op = _op(lhs.ndim - count, rhs.ndim - count)
    return op(lhs, rhs, numbers=numbers, order=order)


def others(x: Typed, *axes: int) -> list[int]:
    """All other axes."""
    return [i for i in range(len(x.shape)) if i not in axes]


def _splits(numbers: DimensionNumbers) -> bool:
    """Whether sharded batches stay in place."""
    lhs, rhs = numbers[1]
    return list(lhs) == list(rhs) == list(range(len(lhs)))


DOT_GENERAL = Rule(
    "jax.lax.dot_general_p",
    functools.partial(covers, why_not=_why_not_called),
    _multiply,
    target=_TARGET,
    folds=True,
    partitions=lambda *_, dimension_numbers: _splits(dimension_numbers),
    test=_comparisons.MULTIPLIED,
)
