"""Operands and results without batch axes, which all rows share.

A shared operand serves every row of a call, as a layer's weight does; a shared
result is a sum over the rows, as that weight's gradient is. vmap gives either
one batch axes after all. These are always the first ones of the call, so the
first indices of a row find its shared operand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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
        return flatten(function(*values, **attributes.for_reference))

    return over_batches(spec, call, operands)(*operands)


def over_batches(spec: OpSpec, function: _F, operands: Sequence[Typed]) -> _F:
    """`function`, vmapped over the batch axes that shared operands have."""
    for level in reversed(range(spec.depth(operands))):
        axes = _in_axes(spec, enumerate(operands), level)
        function = jax.vmap(function, tuple(axes.values()))
    return function


def _in_axes(
    spec: OpSpec, operands: Iterable[tuple[int, Typed]], level: int
) -> dict[int, int | None]:
    """Returns where operands have the batch axis `level`, by index."""
    return {
        i: None if i in spec.shared and spec.own_axes(i, x) <= level else 0
        for i, x in operands
    }


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
        returned = rule(primals, tangents, **attributes.for_reference)
        outs, out_tangents = rule_checks.pair(
            spec, "jvp", "(results, tangents)", returned
        )
        return (
            rule_checks.arrays(spec, "jvp: results", outs, count),
            rule_checks.arrays(
                spec, "jvp: tangents", out_tangents, count, _EACH_RESULT
            ),
        )

    for level in reversed(range(spec.depth(primals))):
        axes = tuple(_in_axes(spec, enumerate(primals), level).values())
        call = jax.vmap(call, (axes, axes))
    return call(tuple(primals), tuple(tangents))


def transpose(
    spec: OpSpec,
    cotangents: Sequence[jax.Array | None],
    operands: Sequence[Operand],
    attributes: AttributeValues,
) -> list[jax.Array | None]:
    """The author's rule: cotangents of the linear operands, or None."""
    rule = spec.transpose
    assert rule is not None
    levels = spec.depth([type_of(x) for x in operands])
    known = {
        i: x
        for i, x in enumerate(operands)
        if not isinstance(x, ad.UndefinedPrimal)
    }

    def call(
        cotangents: tuple[jax.Array | None, ...], known: dict[int, jax.Array]
    ) -> Cotangents:
        full = [
            known[i] if i in known else _row(spec, i, type_of(x), levels)
            for i, x in enumerate(operands)
        ]
        results = cotangents if len(cotangents) > 1 else cotangents[0]
        return rule_checks.cotangents(
            spec,
            "transpose: cotangents",
            rule(results, *full, **attributes.for_reference),
            len(spec.linear),
            "linear operand",
        )

    for level in reversed(range(levels)):
        call = jax.vmap(call, (0, _in_axes(spec, known.items(), level)))
    out = call(tuple(cotangents), known)
    return [
        _sum_to(spec, i, x, type_of(operands[i]), levels)
        for i, x in zip(spec.linear, out, strict=True)
    ]


def type_of(x: Operand) -> Typed:
    """Shape and dtype of an operand that may have no value."""
    return x.aval if isinstance(x, ad.UndefinedPrimal) else x


def row_types(
    spec: OpSpec, operands: Sequence[Typed]
) -> list[jax.ShapeDtypeStruct]:
    """The types of the operands of one call that `over_batches` makes."""
    levels = spec.depth(operands)
    return [_row(spec, i, x, levels) for i, x in enumerate(operands)]


def _row(
    spec: OpSpec, index: int, operand: Typed, levels: int
) -> jax.ShapeDtypeStruct:
    """The type of an operand without the batch axes that are vmapped."""
    own = levels
    if index in spec.shared:
        own = min(spec.own_axes(index, operand), levels)
    return jax.ShapeDtypeStruct(operand.shape[own:], operand.dtype)


def _sum_to(
    spec: OpSpec,
    index: int,
    x: jax.Array | None,
    operand: Typed,
    levels: int,
) -> jax.Array | None:
    """Sums over the batch axes that a shared operand lacks."""
    if x is None or index not in spec.shared:
        return x
    return jnp.sum(x, tuple(range(spec.own_axes(index, operand), levels)))
