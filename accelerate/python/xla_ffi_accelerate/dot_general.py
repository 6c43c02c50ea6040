"""Lowers JAX's products of many small matrices to the kit's handler.

XLA calls a library for each of them, and in which order that adds depends on
its release, on the processor, on the dtype and on the sizes. So XLA's own code
is run once for each dtype and sizes that a program has, on 256 matrices, when
the program is lowered; what adds in no order that the handler has stays with
XLA.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _jax, _jax_rules, _replacement, _self_test
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

Axes: TypeAlias = Sequence[int]
# ((contracting of lhs, of rhs), (batch of lhs, of rhs)), as JAX has it.
DimensionNumbers: TypeAlias = tuple[tuple[Axes, Axes], tuple[Axes, Axes]]

# An operand of a product, by the axis that is summed over.
_Layouts: TypeAlias = dict[int, jax.Array]

# Break-even sizes: where the sums are shorter, or the result has fewer rows and
# columns, XLA has loops of its own in place of the calls; of larger matrices it
# multiplies several at once. There the handler is as fast or slower, and so it
# is with a few matrices.
_MIN_COUNT = 8
_MIN_PRODUCTS = 4
_MIN_ROWS_OR_COLUMNS = 4
_MAX_SIZE = 7
_MATRICES_TESTED = 256
# The handler's, by how often XLA has them.
_ORDERS = (
    "fma",
    "multiply_add",
    "even_odd_fma",
    "fma_then_zero",
    "multiply_add_then_zero",
)


class DotGeneral:
    """The rule of `jax.lax.dot_general_p`."""

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.dot_general"
    PARAMETERS = (
        frozenset(
            {
                "dimension_numbers",
                "out_sharding",
                "precision",
                "preferred_element_type",
            }
        ),
    )

    def __init__(self) -> None:
        self._orders: dict[object, str | None] = {}

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive("dot_general_p")

    def covers(
        self,
        avals: Sequence[ShapedArray],
        *,
        dimension_numbers: DimensionNumbers,
        out_sharding: object,
        precision: object,
        preferred_element_type: object,
    ) -> bool:
        """Whether the handler adds as XLA's own code does, and sooner."""
        lhs, rhs = avals
        dtype = lhs.dtype
        if str(dtype) not in ("float32", "float64") or rhs.dtype != dtype:
            return False
        if preferred_element_type is not None and (
            np.dtype(preferred_element_type) != dtype  # type: ignore[call-overload]
        ):
            return False
        if out_sharding is not None or not _is_full_precision(precision):
            return False
        sizes = _sizes(lhs, rhs, dimension_numbers)
        return _is_worthwhile(*sizes) and (
            self._order(dtype, sizes[1:]) is not None
        )

    def partitions(
        self,
        avals: Sequence[ShapedArray],
        *,
        dimension_numbers: DimensionNumbers,
        **_: object,
    ) -> bool:
        """Whether sharded batches stay in place."""
        lhs, rhs = dimension_numbers[1]
        first = list(range(len(lhs)))
        return list(lhs) == first and list(rhs) == first

    def lower(
        self,
        ctx: LoweringRuleContext,
        lhs: ir.Value,
        rhs: ir.Value,
        *,
        dimension_numbers: DimensionNumbers,
        **_: object,
    ) -> Lowered:
        """Lowers products that the handler covers."""
        avals = lowering.shaped(ctx.avals_in)
        sizes = _sizes(avals[0], avals[1], dimension_numbers)[1:]
        order = self._order(avals[0].dtype, sizes)
        lowering.register(CPU_LIBRARY, self.TARGET)
        build = jax.ffi.build_ffi_lowering_function(self.TARGET)
        call = build(ctx, lhs, rhs, **_attributes(dimension_numbers, order))
        if self.partitions(avals, dimension_numbers=dimension_numbers):
            _annotate(call, avals, dimension_numbers)
        results: Lowered = call.results
        return results

    def _order(
        self, dtype: np.dtype[np.generic], sizes: tuple[int, ...]
    ) -> str | None:
        """The order in which XLA adds here, if the handler has it."""
        key = (dtype, sizes)
        if key not in self._orders:
            if not _jax.backend_is_up():
                return None  # a program that is lowered for elsewhere
            try:
                self._orders[key] = _self_test.isolated(
                    functools.partial(_find_order, dtype, *sizes)
                )
            except Exception as error:  # the program has JAX's own code
                self._orders[key] = None
                _replacement.warn("dot_general", f"its test: {error!r}")
        return self._orders[key]


def _is_full_precision(precision: object) -> bool:
    """Whether it is JAX's default, or asks for what the CPU always has."""
    given = precision if isinstance(precision, tuple) else (precision,)
    return all(p is None or isinstance(p, jax.lax.Precision) for p in given)


def _sizes(
    lhs: ShapedArray, rhs: ShapedArray, numbers: DimensionNumbers
) -> tuple[int, int, int, int]:
    """Matrices, rows, products of a sum and columns."""
    (contracting, _), (lhs_batch, _) = numbers
    count = math.prod(lhs.shape[i] for i in lhs_batch)
    k = math.prod(lhs.shape[i] for i in contracting)
    if not count * k:
        return 0, 0, 0, 0
    return count, lhs.size // (count * k), k, rhs.size // (count * k)


def _is_worthwhile(count: int, m: int, k: int, n: int) -> bool:
    return (
        count >= _MIN_COUNT
        and min(m, n) > 1
        and max(m, n) >= _MIN_ROWS_OR_COLUMNS
        and k >= _MIN_PRODUCTS
        and max(m, k, n) <= _MAX_SIZE
    )


def _attributes(
    numbers: DimensionNumbers, order: str | None
) -> dict[str, object]:
    (lhs_contracting, rhs_contracting), (lhs_batch, rhs_batch) = numbers
    axes = {
        "lhs_batch": lhs_batch,
        "rhs_batch": rhs_batch,
        "lhs_contracting": lhs_contracting,
        "rhs_contracting": rhs_contracting,
    }
    values = {name: np.array(a, np.int64) for name, a in axes.items()}
    return {**values, "order": order}


def _annotate(
    call: ir.OpView, avals: Sequence[ShapedArray], numbers: DimensionNumbers
) -> None:
    """Lets the batch shard, whose dimensions are the first ones."""
    contracting, (batch, _) = numbers
    operands = []
    for side, aval, axes in zip("lr", avals, contracting, strict=True):
        names = [f"{side}{i}" for i in range(len(aval.shape))]
        for i, axis in enumerate(axes):
            names[axis] = f"k{i}"
        operands.append([f"b{i}" for i in batch] + names[len(batch) :])
    result = operands[0][: len(batch)]
    for names in operands:
        result += [n for n in names[len(batch) :] if n[0] != "k"]
    kept = {n: None for names in operands for n in names if n[0] != "b"}
    lowering.annotate(
        call, operands, [result], replicated=list(kept), batch=len(batch)
    )


def _find_order(
    dtype: np.dtype[np.generic], m: int, k: int, n: int
) -> str | None:
    """Compares XLA's own code with the handler, in every order."""
    random = np.random.default_rng(0)
    lhs = random.standard_normal((_MATRICES_TESTED, m, k)).astype(dtype)
    rhs = random.standard_normal((_MATRICES_TESTED, k, n)).astype(dtype)
    # Half of them are flushed to zeros; not every order keeps their signs.
    lhs[::2] *= float(np.finfo(str(dtype)).tiny)
    lowering.register(CPU_LIBRARY, DotGeneral.TARGET)
    call = jax.ffi.ffi_call(
        DotGeneral.TARGET,
        jax.ShapeDtypeStruct((_MATRICES_TESTED, m, n), dtype),
    )
    numbers = (((2,), (1,)), ((0,), (0,)))

    def every(
        lhs: _Layouts, rhs: _Layouts, again: tuple[_Layouts, _Layouts]
    ) -> tuple[list[jax.Array], list[jax.Array], list[jax.Array]]:
        own = _own_products(lhs, rhs)
        # XLA may make one of a product and of what transposes its result; but
        # not if it has the product already.
        transposed = [x.swapaxes(1, 2) for x in _own_products(*again)]
        kit = [
            call(lhs[2], rhs[1], **_attributes(numbers, order))
            for order in _ORDERS
        ]
        return own, transposed, kit

    # By the axis of the products, and laid out so.
    operands = (
        {2: lhs, 1: np.ascontiguousarray(np.swapaxes(lhs, 1, 2))},
        {1: rhs, 2: np.ascontiguousarray(np.swapaxes(rhs, 1, 2))},
    )
    compiled = jax.jit(every).lower(*operands, operands).compile()
    own, transposed, kit = compiled(*operands, operands)
    found = {np.asarray(x).tobytes() for x in own}
    found |= {np.asarray(x).swapaxes(1, 2).tobytes() for x in transposed}
    # More than one if it depends on how operands and result lie in memory.
    return next(
        (
            order
            for order, x in zip(_ORDERS, kit, strict=True)
            if found == {np.asarray(x).tobytes()}
        ),
        None,
    )


def _own_products(lhs: _Layouts, rhs: _Layouts) -> list[jax.Array]:
    """The products from operands of every layout."""
    return [
        jax.lax.dot_general(x, y, (((i,), (j,)), ((0,), (0,))))
        for (i, x), (j, y) in itertools.product(lhs.items(), rhs.items())
    ]
