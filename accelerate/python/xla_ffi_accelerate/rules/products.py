"""Products of many small matrices.

XLA calls a library for each of them, and in which order that adds depends on
its release, on the processor, on the dtype and on the sizes. So XLA's own code
is run once for each dtype and sizes that a program has, when it is lowered; a
product that it adds in no order that the handler has stays with XLA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _handler, _self_tests
from xla_ffi_accelerate._rule import Reason, Rule, params

Axes: TypeAlias = Sequence[int]
# ((contracting of lhs, of rhs), (batch of lhs, of rhs)), as JAX has it.
DimensionNumbers: TypeAlias = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]

# Break-even sizes: where the sums are shorter, or the result has fewer rows and
# columns, XLA has loops of its own in place of the calls; it multiplies several
# larger matrices at once. There the handler is as fast or slower, and so it is
# with a few matrices.
_MIN_COUNT = 8
_MIN_PRODUCTS = 4
_MIN_ROWS_OR_COLUMNS = 4
_MAX_SIZE = 7


def _covers(
    lhs: ShapedArray,
    rhs: ShapedArray,
    *,
    dimension_numbers: DimensionNumbers,
    out_sharding: object,
    precision: object,
    preferred_element_type: np.dtype[np.generic] | None,
) -> Reason:
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
    sizes = _self_tests.product_sizes(lhs, rhs, dimension_numbers)
    count, m, k, n = sizes
    if max(m, k, n) > _MAX_SIZE:
        return f"XLA is as fast for matrices beyond {_MAX_SIZE} rows or columns"
    if (
        count < _MIN_COUNT
        or min(m, n) <= 1
        or max(m, n) < _MIN_ROWS_OR_COLUMNS
        or k < _MIN_PRODUCTS
    ):
        return f"XLA is as fast for {count} products of {m} x {k} and {k} x {n}"
    return None


def _multiply(
    lhs: jax.Array,
    rhs: jax.Array,
    *,
    dimension_numbers: DimensionNumbers,
    order: str,
    **_: object,
) -> list[jax.Array]:
    contracting, batch = dimension_numbers
    shape = [lhs.shape[i] for i in batch[0]]
    for x, *axes in zip((lhs, rhs), contracting, batch, strict=True):
        taken = {i for side in axes for i in side}
        shape += [n for i, n in enumerate(x.shape) if i not in taken]
    return _handler.call(
        *("xla_ffi_accelerate.dot_general", [(shape, lhs.dtype)], lhs, rhs),
        batch=len(batch[0]) if _splits(dimension_numbers) else 0,
        lhs_batch=tuple(batch[0]),
        rhs_batch=tuple(batch[1]),
        lhs_contracting=tuple(contracting[0]),
        rhs_contracting=tuple(contracting[1]),
        order=order,
    )


def _splits(numbers: DimensionNumbers) -> bool:
    """Whether sharded batches stay in place."""
    lhs, rhs = numbers[1]
    return list(lhs) == list(rhs) == list(range(len(lhs)))


DOT_GENERAL = Rule(
    "jax.lax.dot_general_p",
    params(
        "dimension_numbers",
        "out_sharding",
        "precision",
        "preferred_element_type",
    ),
    _covers,
    _multiply,
    target="xla_ffi_accelerate.dot_general",
    partitions=lambda *_, dimension_numbers, **__: _splits(dimension_numbers),
    test=_self_tests.MULTIPLIED,
)
