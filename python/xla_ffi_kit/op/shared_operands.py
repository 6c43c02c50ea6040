"""Batch axes that functions of a spec never see: `vmap` goes over them.

A shared operand serves every row of a call, as a layer's weight does; a shared
result is a sum over the rows, as that weight's gradient is. vmap gives either
one batch axes after all. These are always the first ones of the call, so the
first indices of a row find its shared operand. Of a handler that cannot batch,
they are all batch axes. Where a loop of calls runs these axes, an operand that
`vmap` does not map has them with size one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.op import operand_checks, rule_checks
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.rule_checks import Cotangents
from xla_ffi_kit.op.spec import Arrays, Function, OpSpec, flatten

# An operand, or what stands for one whose cotangent is wanted.
Operand: TypeAlias = jax.Array | ad.UndefinedPrimal
# The tangent of an integer operand is an array of float0.
Tangent: TypeAlias = jax.Array | np.ndarray[Shape, np.dtype[np.void]]
_EACH_RESULT = ", one for each result"
_R = TypeVar("_R")
_X = TypeVar("_X", jax.Array, Tangent, Tangent | None)
# Of a function's operands, those that an axis of a batch is first of.
Axes: TypeAlias = tuple[int | None, ...]
Each: TypeAlias = Callable[[Callable[..., Any], Axes], Callable[..., Any]]


def in_jax(
    spec: OpSpec,
    function: Function | None,
    attributes: AttributeValues,
    *operands: jax.Array,
) -> Arrays:
    """Calls `function`, which has the reference's signature; returns a tuple.

    It never sees a shared operand's batch axes. The caller has checked that the
    function is not None.
    """
    assert function is not None

    def call(*values: jax.Array) -> Arrays:
        full = spec.fill(values)
        found = flatten(function(*full, **attributes.for_reference))
        return tuple(rule_checks.strong(jnp.asarray(y)) for y in found)

    return over_batches(spec, call, operands)(*operands)


def over_batches(
    spec: OpSpec,
    function: Callable[..., _R],
    operands: Sequence[Typed],
    each: Each = jax.vmap,
) -> Callable[..., _R]:
    """`function` for every element of the axes that `depth` counts.

    Args:
      spec: the operation.
      function: called with operands that lack these axes.
      operands: what the returned function is called with.
      each: `jax.vmap`, or what does the same in another way.
    """
    for axes in _batch_axes(spec, operands):
        function = each(function, axes)
    if not spec.loops:
        return function

    def call(*values: jax.Array) -> _R:
        return function(*_without_ones(spec, operands, values))

    return call


def in_turn(function: Callable[..., _R], axes: Axes) -> Callable[..., _R]:
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


def _lacking(spec: OpSpec, operands: Sequence[Typed]) -> list[tuple[int, ...]]:
    """Which of the axes that `depth` counts an operand has not, or for all."""
    levels = tuple(range(spec.depth(operands)))
    lead = operand_checks.leading_shape(spec, operands) if levels else ()
    return [
        levels[spec.own_axes(i, x) :]
        if i in spec.shared
        else tuple(at for at in levels if x.shape[at] != lead[at])
        for i, x in enumerate(operands)
    ]


def _batch_axes(spec: OpSpec, operands: Sequence[Typed]) -> Iterator[Axes]:
    """For each axis that `depth` counts, which operands have it; last first."""
    lacking = _lacking(spec, operands)
    for level in reversed(range(spec.depth(operands))):
        yield tuple(None if level in axes else 0 for axes in lacking)


def jvp(
    spec: OpSpec,
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent | None],
    attributes: AttributeValues,
    count: int,
) -> tuple[Arrays, Arrays]:
    """The author's rule: `count` results and their tangents."""
    rule = spec.jvp
    assert rule is not None

    def call(
        primals: Arrays, tangents: tuple[Tangent | None, ...]
    ) -> tuple[Arrays, Arrays]:
        full = tuple(spec.fill(primals)), tuple(spec.fill(tangents))
        returned = rule(*full, **attributes.for_reference)
        outs, out_tangents = rule_checks.pair(
            spec, "jvp", "(results, tangents)", returned
        )
        return (
            rule_checks.arrays(spec, "jvp: results", outs, count),
            rule_checks.arrays(
                spec, "jvp: tangents", out_tangents, count, _EACH_RESULT
            ),
        )

    for axes in _batch_axes(spec, primals):
        call = jax.vmap(call, (axes, axes))
    return call(
        tuple(_without_ones(spec, primals, primals)),
        tuple(_without_ones(spec, primals, tangents)),
    )


def transpose(
    spec: OpSpec,
    cotangents: Sequence[jax.Array | None],
    operands: Sequence[Operand],
    attributes: AttributeValues,
) -> list[jax.Array | None]:
    """The author's rule: cotangents of `spec.linear`, or None."""
    rule = spec.transpose
    assert rule is not None
    types = [_type_of(x) for x in operands]
    rows = row_types(spec, types)
    known = {
        i: x
        for i, x in enumerate(operands)
        if not isinstance(x, ad.UndefinedPrimal)
    }

    def call(
        cotangents: tuple[jax.Array | None, ...], known: dict[int, jax.Array]
    ) -> Cotangents:
        full = [known.get(i, row) for i, row in enumerate(rows)]
        results = cotangents if len(cotangents) > 1 else cotangents[0]
        found = rule_checks.cotangents(
            spec,
            "transpose: cotangents",
            rule(results, *spec.fill(full), **attributes.for_reference),
            len(spec.linear_slots),
            "linear operand",
        )
        slots = zip(spec.linear_slots, found, strict=True)
        return tuple(ct for slot, ct in slots if slot is not None)

    for axes in _batch_axes(spec, types):
        call = jax.vmap(call, (0, {i: axes[i] for i in known}))
    lacking = _lacking(spec, types)
    rows_of_known = {
        i: x if i in spec.shared else x.squeeze(lacking[i])
        for i, x in known.items()
    }
    out = call(tuple(cotangents), rows_of_known)
    return [
        ct
        if ct is None
        else jnp.sum(ct, lacking[i], keepdims=i not in spec.shared)
        for i, ct in zip(spec.linear, out, strict=True)
    ]


def _type_of(x: Operand) -> Typed:
    return x.aval if isinstance(x, ad.UndefinedPrimal) else x


def row_types(
    spec: OpSpec, operands: Sequence[Typed]
) -> list[jax.ShapeDtypeStruct]:
    """The types of the operands of one call that `over_batches` makes."""
    levels = spec.depth(operands)
    rows = []
    for i, x in enumerate(operands):
        own = levels
        if i in spec.shared:
            own = min(spec.own_axes(i, x), levels)
        rows.append(jax.ShapeDtypeStruct(x.shape[own:], x.dtype))
    return rows


def _without_ones(
    spec: OpSpec, operands: Sequence[Typed], values: Sequence[_X]
) -> list[_X]:
    """Values like operands, without axes of size one that stand for no axis."""
    if not spec.loops:
        return list(values)
    pairs = zip(values, _lacking(spec, operands), strict=True)
    return [
        x if x is None or i in spec.shared else x.squeeze(axes)
        for i, (x, axes) in enumerate(pairs)
    ]
