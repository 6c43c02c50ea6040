"""Operands and results without batch axes, which all rows share.

A shared operand serves every row of a call, as a layer's weight does; a shared
result is a sum over the rows, as that weight's gradient is. vmap gives either
one batch axes after all. These are always the first ones of the call, so the
first indices of a row find its shared operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.primitive import rule_checks
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.rule_checks import Cotangents
from xla_ffi_kit.primitive.spec import Arrays, Function, OpSpec, flatten

# An operand, or what stands for one whose cotangent is wanted.
Operand: TypeAlias = jax.Array | ad.UndefinedPrimal
# The tangent of an integer operand is an array of float0.
Tangent: TypeAlias = jax.Array | np.ndarray[Shape, np.dtype[np.void]]
_EACH_RESULT = ", one for each result"
_F = TypeVar("_F", bound=Callable[..., object])


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
        return flatten(function(*full, **attributes.for_reference))

    return over_batches(spec, call, operands)(*operands)


def over_batches(spec: OpSpec, function: _F, operands: Sequence[Typed]) -> _F:
    """`function`, vmapped over the batch axes that shared operands have."""
    for axes in _batch_axes(spec, operands):
        function = jax.vmap(function, axes)
    return function


def _batch_axes(
    spec: OpSpec, operands: Sequence[Typed]
) -> Iterator[tuple[int | None, ...]]:
    """Per batch axis of shared operands, which operands have it; last first."""
    for level in reversed(range(spec.depth(operands))):
        yield tuple(
            None if i in spec.shared and spec.own_axes(i, x) <= level else 0
            for i, x in enumerate(operands)
        )


def jvp(
    spec: OpSpec,
    primals: Sequence[jax.Array],
    tangents: Sequence[Tangent],
    attributes: AttributeValues,
    count: int,
) -> tuple[Arrays, Arrays]:
    """The author's rule: `count` results and their tangents."""
    rule = spec.jvp
    assert rule is not None

    def call(
        primals: Arrays, tangents: tuple[Tangent, ...]
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
    return call(tuple(primals), tuple(tangents))


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
    out = call(tuple(cotangents), known)
    levels = spec.depth(types)
    return [
        # A shared operand lacks some of the batch axes.
        jnp.sum(ct, tuple(range(spec.own_axes(i, types[i]), levels)))
        if ct is not None and i in spec.shared
        else ct
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
