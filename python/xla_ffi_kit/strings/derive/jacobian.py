"""Results and their Jacobian from one call, and the products with it.

In reverse mode, JAX runs the operation, and later the derivative, which runs
the string again. Where a row's Jacobian is small, the operation's call returns
it, too, and all that is left is a product, which XLA computes.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp

from xla_ffi_kit import _check, ffi_op
from xla_ffi_kit._check import Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op import declare
from xla_ffi_kit.op.spec import flatten
from xla_ffi_kit.strings.derive.function import DifferentiableCode

Value: TypeAlias = Any

# So many slopes of a number are computed beside it, without a tape, where a row
# has so many numbers for each slope.
_MOST_SLOTS, _NUMBERS_EACH = 4, 8


def slots(
    function: DifferentiableCode,
    active: Sequence[int],
    operands: Sequence[Typed],
    results: Sequence[Typed],
    in_lanes: bool,
) -> int | None:
    """As `DifferentiableCode.jacobian` has it; None for no Jacobian.

    Args:
      function: the string.
      active: the operands that have tangents.
      operands: the types of a row's operands.
      results: the types of a row's results.
      in_lanes: whether rows run in lanes. There, forward mode has NaN where a
        constant is infinite, and reverse mode has not.
    """
    moving = [operands[i] for i in active]
    if (
        function.form != "Row"
        or any(y.axes is not None for y in function.outs)  # a derivative itself
        or len(function.outs) != len(results)
        or not _check.is_static(*(x.shape for x in (*operands, *results)))
        # 16-bit floats would be rounded twice.
        or any(x.dtype.itemsize < 4 for x in (*moving, *results))
    ):
        return None
    count = sum(map(_size, moving))
    whole = sum(map(_size, (*operands, *results)))
    is_small = 0 < count <= _MOST_SLOTS and count * _NUMBERS_EACH <= whole
    if is_small and not in_lanes:
        return count
    if len(results) > 1 or _size(results[0]) != 1:
        return None
    # A Jacobian has slopes towards shared operands for each row.
    shared = sum(_size(operands[i]) for i in active if i in function.shared)
    rows = [x for i, x in enumerate(operands) if i not in function.shared]
    return 0 if not rows or shared <= sum(map(_size, rows)) else None


def reference(
    op: Callable[..., Value],
    function: DifferentiableCode,
    active: Sequence[int],
    derivative: Callable[..., Value],
    count: int,
) -> Callable[..., Value]:
    """The same by the operation and one of its derivatives.

    Args:
      op: the operation.
      function: the string.
      active: the operands that have tangents.
      derivative: its `jvp`, or `vjp` if `count` is 0.
      count: as `slots` returns it.
    """

    def row(*values: Value, **attributes: Value) -> Value:
        outs = flatten(op(*values, **attributes))
        moving = [values[i] for i in active]
        if count == 0:
            ones = [jnp.ones(y.shape, y.dtype) for y in outs]
            slopes = flatten(derivative(*values, *ones, **attributes))
            return (*outs, *(s.reshape(1, -1) for s in slopes))
        ends = [sum(map(_size, moving[: i + 1])) for i in range(len(moving))]

        def column(unit: jax.Array) -> tuple[Value, ...]:
            parts = jnp.split(unit, ends[:-1])
            pairs = zip(parts, moving, strict=True)
            units = [p.reshape(x.shape).astype(x.dtype) for p, x in pairs]
            return flatten(derivative(*values, *units, **attributes))

        columns = jax.vmap(column, out_axes=-1)(jnp.eye(count))
        return *outs, *(
            block.reshape(-1, _size(x)).astype(x.dtype)
            for of_result in columns
            for block, x in zip(
                jnp.split(of_result, ends[:-1], -1), moving, strict=True
            )
        )

    return in_rows(function, row)


def in_rows(
    function: DifferentiableCode, row: Callable[..., Value]
) -> Callable[..., Value]:
    """A function of a row as one of any rows."""

    def rows(*values: Value, **attributes: Value) -> Value:
        call = functools.partial(row, **attributes)
        axes = [None if x.is_shared else 0 for x in function.operands]
        first = function.first_with_rows()
        if first is not None:
            letters = function.operands[first].letters
            for _ in range(values[first].ndim - len(letters)):
                call = jax.vmap(call, axes)
        return call(*values)

    return rows


def tangents(
    function: DifferentiableCode,
    active: Sequence[int],
    moving: Sequence[jax.Array],
    outs: Sequence[jax.Array],
    blocks: Sequence[jax.Array],
) -> tuple[jax.Array, ...]:
    """The tangents of the results, from those of the active operands."""
    operands = [function.operands[i] for i in active]
    flat = [
        t.reshape(*t.shape[: t.ndim - len(x.letters)], -1)
        for x, t in zip(operands, moving, strict=True)
    ]
    remaining = iter(blocks)
    slopes = []
    for y in outs:
        parts = [
            _product(x.is_shared)(next(remaining), t).astype(y.dtype)
            for x, t in zip(operands, flat, strict=True)
        ]
        slopes.append(functools.reduce(operator.add, parts).reshape(y.shape))
    return tuple(slopes)


def _size(x: Typed) -> int:
    return math.prod(x.shape)


# A slope may be infinite or NaN where nothing changes, or nobody wants to know.
def _times(block: Value, x: Value) -> Value:
    return jnp.where(x == 0, jnp.zeros((), x.dtype), block * x)


@functools.cache
def _product(is_shared: bool) -> FfiOp[Any]:
    """Jacobian times tangents, which all rows may share."""

    def pull(ct: Value, block: Value, t: Value) -> Value:
        if isinstance(t, jax.Array):
            return ct[..., :, None] * t[..., None, :], None
        slope = _transposed()(block, ct)
        rows = range(slope.ndim - 1) if is_shared else ()
        return None, jnp.sum(slope, tuple(rows))

    return _linear(
        "jacobian_product",
        lambda block, x: jnp.sum(_times(block, x[..., None, :]), -1),
        "(r,c),(c)->(r)",
        pull,
        "x" if is_shared else (),
    )


@functools.cache
def _transposed() -> FfiOp[Any]:
    """Cotangents times Jacobian."""

    def pull(t: Value, block: Value, ct: Value) -> Value:
        if isinstance(ct, jax.Array):
            return ct[..., :, None] * t[..., None, :], None
        return None, _product(False)(block, t)

    return _linear(
        "jacobian_transposed",
        lambda block, x: jnp.sum(_times(block, x[..., None]), -2),
        "(r,c),(r)->(c)",
        pull,
        (),
    )


def _linear(
    name: str,
    by_jax: Callable[..., Value],
    axes: str,
    pull: Callable[..., Value],
    shared: str | Sequence[str],
) -> FfiOp[Any]:
    return ffi_op.of_spec(
        declare.declare(
            name,
            by_jax,
            None,
            None,
            None,
            {
                "axes": axes,
                "handlers": {},
                "bilinear": ("block", "x"),
                "transpose": pull,
                "shared": shared,
            },
        )
    )
