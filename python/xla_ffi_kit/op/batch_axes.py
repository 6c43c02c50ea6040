"""The batch axes of a call: which there are, and which `vmap` goes over.

All operands begin with the batch axes. A shared operand, such as a layer's
weight, has none of them, because it serves every row of a call; a shared
result, such as that weight's gradient, is a sum over the rows. `vmap` gives
either one batch axes after all. These are always the first ones of the call, so
the first indices of a row find its shared operand. If a handler cannot batch,
all batch axes are like these.

`OpSpec.depth` counts these axes. Functions of the spec never see them: a `vmap`
inside of the operation, or a loop of calls, goes over them. For a loop,
`vmap` gives an operand that it does not map a batch axis of size one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.operands import strong
from xla_ffi_kit.op.spec import (
    Arrays,
    Combination,
    Function,
    OpSpec,
    flatten,
)

# The tangent of an integer operand is an array of float0.
Tangent: TypeAlias = jax.Array | np.ndarray[Shape, np.dtype[np.void]]
# For each operand of a function 0 if it has the mapped axis, which is its
# first, or None.
MappedAxes: TypeAlias = tuple[int | None, ...]
_R = TypeVar("_R")
_X = TypeVar("_X", jax.Array, Tangent, Tangent | None)


# What makes the shared results of one call of those of several, along axes.
# Their dtype stays, which `jnp.sum` of integers would make a wider one.
COMBINATIONS: dict[Combination, Callable[..., jax.Array]] = {
    "sum": lambda y, axes: jnp.sum(y, axes, dtype=y.dtype),
    "max": jnp.max,
    "min": jnp.min,
}

# --- The leading shape --------------------------------------------------------


def leading_shape(spec: OpSpec, operands: Sequence[Typed]) -> Shape:
    """The batch axes that all operands have; ValueError if they differ.

    A shared operand may have the first ones, or none.
    """
    leads: list[Shape] = []
    for name, x, axes in zip(
        spec.operand_names, operands, spec.kernel_axes, strict=True
    ):
        rank = len(x.shape)
        if rank < axes:
            raise ValueError(
                spec.error(f"operand {name}", f"rank >= {axes}", f"rank {rank}")
            )
        leads.append(tuple(x.shape[: rank - axes]))
    unshared = [i for i in range(len(leads)) if i not in spec.shared]
    if not unshared:
        return ()
    first = unshared[0]
    common = leads[first]
    # How many of the first axes may have size one beside another size.
    ones = spec.depth(operands) if spec.loops else 0
    if spec.advanced.vmap_method == "expand_dims":
        ones = len(common)
    if ones:
        common = _broadcast(common, leads)
    for i, lead in enumerate(leads):
        is_shared = i in spec.shared
        if is_shared:
            fits = lead == common[: len(lead)]
        else:
            fits = len(lead) == len(common) and all(
                size == whole or (axis < ones and size == 1)
                for axis, (size, whole) in enumerate(
                    zip(lead, common, strict=True)
                )
            )
        if not fits:
            expected = "batch dimensions "
            if is_shared:
                expected = "no batch dimensions, or the first ones of "
            expected += (
                f"{list(common)} as operand {spec.operand_names[first]} has"
            )
            what = f"operand {spec.operand_names[i]}"
            got = f"{list(lead)}{_share(spec, first, common, i, lead)}"
            raise ValueError(spec.error(what, expected, got))
    return common


def _broadcast(common: Shape, leads: Sequence[Shape]) -> Shape:
    """Per axis of `common`, the first size that is not one.

    Shared operands may have fewer axes.
    """
    rank = len(common)
    padded = [(*lead, *(1,) * (rank - len(lead))) for lead in leads]
    alike = [common, *(lead for lead in padded if len(lead) == rank)]
    return tuple(
        next((lead[i] for lead in alike if lead[i] != 1), 1)
        for i in range(rank)
    )


def _share(spec: OpSpec, first: int, common: Shape, i: int, lead: Shape) -> str:
    """The remedy if one of two operands has no batch axes, else ""."""
    if bool(common) == bool(lead) or i in spec.shared:
        return ""
    if spec.advanced.vmap_method != "broadcast_all":
        return ""
    operand = spec.operands[first if lead else i]
    return (
        f"; broadcast {operand.name}, or make the operation with "
        f"shared={operand.parameter!r}"
    )


def check_none(spec: OpSpec, operands: Sequence[Typed]) -> None:
    """ValueError for batch axes of a call that only `vmap` may give them."""
    for i, x in enumerate(operands if spec.is_sequential else ()):
        axes, rank = spec.kernel_axes[i], len(x.shape)
        if rank > axes:
            what = f"operand {spec.operand_names[i]}"
            expected = f"rank {axes} (vmap it over more)"
            raise ValueError(spec.error(what, expected, f"rank {rank}"))


# --- Functions of the spec ----------------------------------------------------


def in_jax(
    spec: OpSpec,
    function: Function,
    attributes: AttributeValues,
    *operands: jax.Array,
) -> Arrays:
    """Calls `function`, which has the reference's signature; returns a tuple.

    It never sees the axes that `depth` counts.
    """

    def call(*values: jax.Array) -> Arrays:
        results = function(*spec.fill(values), **attributes.for_reference)
        return tuple(strong(jnp.asarray(y)) for y in flatten(results))

    return over_batches(spec, call, operands)(*operands)


def over_batches(
    spec: OpSpec,
    function: Callable[..., _R],
    operands: Sequence[Typed],
    transform: Callable[..., Callable[..., Any]] = jax.vmap,
) -> Callable[..., _R]:
    """`function` for every element of the axes that `depth` counts.

    Args:
      spec: the operation.
      function: called with operands that lack these axes.
      operands: what the returned function is called with.
      transform: `jax.vmap`, or `in_turn`.
    """
    for axes in mapped_axes(spec, operands):
        function = transform(function, axes)
    if not spec.has_ones:
        return function

    def call(*values: jax.Array) -> _R:
        return function(*without_ones(spec, operands, values))

    return call


def in_turn(function: Callable[..., _R], axes: MappedAxes) -> Callable[..., _R]:
    """Does what `jax.vmap(function, axes)` does, by a call for each element."""

    def call(*operands: jax.Array) -> _R:
        mapped = {i: x for i, x in enumerate(operands) if axes[i] is not None}

        def of_one(row: dict[int, jax.Array]) -> _R:
            return function(*(row.get(i, x) for i, x in enumerate(operands)))

        if any(x.shape[0] != 1 for x in mapped.values()):
            return cast(_R, jax.lax.map(of_one, mapped))
        one = of_one({i: x[0] for i, x in mapped.items()})
        return cast(_R, jax.tree.map(lambda y: y[None], one))

    return call


def absent_axes(
    spec: OpSpec, operands: Sequence[Typed], count: int | None = None
) -> list[tuple[int, ...]]:
    """Which of the first `count` batch axes each operand does not have.

    By default, of those that `depth` counts. Of an operand that is not shared,
    they are there with size one.
    """
    levels = tuple(range(spec.depth(operands) if count is None else count))
    lead = leading_shape(spec, operands) if levels else ()
    return [
        levels[spec.batch_rank(i, x) :]
        if i in spec.shared
        else tuple(at for at in levels if x.shape[at] != lead[at])
        for i, x in enumerate(operands)
    ]


def mapped_axes(
    spec: OpSpec, operands: Sequence[Typed], count: int | None = None
) -> Iterator[MappedAxes]:
    """For each of the axes of `absent_axes`, last first, who has it."""
    absent = absent_axes(spec, operands, count)
    if count is None:
        count = spec.depth(operands)
    for level in reversed(range(count)):
        yield tuple(None if level in axes else 0 for axes in absent)


def without_ones(
    spec: OpSpec, operands: Sequence[Typed], values: Sequence[_X]
) -> list[_X]:
    """Values like operands, without axes of size one that stand for no axis."""
    if not spec.has_ones:
        return list(values)
    pairs = zip(values, absent_axes(spec, operands), strict=True)
    return [
        x if x is None or i in spec.shared else x.squeeze(axes)
        for i, (x, axes) in enumerate(pairs)
    ]


def row_types(
    spec: OpSpec, operands: Sequence[Typed]
) -> list[jax.ShapeDtypeStruct]:
    """The types of the operands of one call that `over_batches` makes."""
    depth = spec.depth(operands)
    rows = []
    for i, x in enumerate(operands):
        absent = depth
        if i in spec.shared:
            absent = min(spec.batch_rank(i, x), depth)
        rows.append(jax.ShapeDtypeStruct(x.shape[absent:], x.dtype))
    return rows
