"""The derivatives of an operation: jvp and transpose.

If the author gives a first-order rule, it is used. Every other derivative is
the reference's.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.errors import NotDifferentiableError
from xla_ffi_kit.op import (
    operand_checks,
    rule_checks,
    shared_operands,
)
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.rule_checks import Cotangents
from xla_ffi_kit.op.shared_operands import Operand
from xla_ffi_kit.op.spec import (
    Arrays,
    OpSpec,
    OwnDerivatives,
    flatten,
    of_active,
)
from xla_ffi_kit.rules import abstract_eval, partitioning, solves
from xla_ffi_kit.rules.abstract_eval import Results

Values: TypeAlias = Sequence[jax.Array]
Tangent: TypeAlias = jax.Array | ad.Zero


def _reference_of(
    spec: OpSpec,
    operands: Sequence[Operand],
    active: Sequence[int],
    attributes: AttributeValues,
) -> Callable[..., Arrays]:
    """The reference as a function of only the `active` operands."""
    run = functools.partial(
        shared_operands.in_jax, spec, spec.reference, attributes
    )
    return of_active(run, operands, active)


def jvp(
    spec: OpSpec,
    primals: Values,
    tangents: Sequence[Tangent],
    *,
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """The rule of an operation's primitive for forward mode."""
    # Derivatives with respect to a Python number come with the number.
    primals = [jnp.asarray(x) for x in primals]
    tangents = [
        jnp.asarray(t) if isinstance(t, float | complex) else t
        for t in tangents
    ]
    active = {
        i: cast(jax.Array, t) for i, t in enumerate(tangents) if not _is_zero(t)
    }
    nonlinear = [i for i in active if i not in spec.linear]
    if nonlinear and spec.jvp is not None:
        return _author_jvp(spec, primals, tangents, attributes)
    if nonlinear and spec.vjp is not None:
        return _author_vjp(spec, primals, tangents, attributes)
    if nonlinear and spec.advanced.differentiate is not None:
        make = spec.advanced.differentiate
        return _own_jvp(spec, make, primals, active, attributes)
    if nonlinear and spec.solves is not None:
        outs, found = solves.jvp(spec, primals, active, attributes)
        return outs, [
            _no_tangent(y) if t is None else t
            for y, t in zip(outs, found, strict=True)
        ]
    if nonlinear and spec.reference is None:
        names = ", ".join(spec.operand_names[i] for i in nonlinear)
        raise NotDifferentiableError(
            f"{spec.name}: no derivative with respect to operand {names}: "
            "the operation has no reference, so give it jvp= or vjp=, or, if "
            "it is a string of C++, derivatives='kernel'"
        )
    outs = _jax_hooks.bind(spec.primitive, primals, attributes)
    parts: list[Values] = []
    for group in spec.linear_groups:
        if active.keys().isdisjoint(group):
            continue
        operands = list(primals)
        for i in group:
            operands[i] = ad.instantiate_zeros(tangents[i])
        parts.append(_jax_hooks.bind(spec.primitive, operands, attributes))
    if nonlinear:
        _, part = jax.jvp(
            _reference_of(spec, primals, nonlinear, attributes),
            tuple(primals[i] for i in nonlinear),
            tuple(active[i] for i in nonlinear),
        )
        parts.append(part)
    return outs, [
        _sum_tangents(out, ts) for out, *ts in zip(outs, *parts, strict=True)
    ]


def _own_jvp(
    spec: OpSpec,
    differentiate: OwnDerivatives,
    primals: Values,
    active: Mapping[int, jax.Array],
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """The tangents by an operation that the spec makes for it."""
    types = abstract_eval.results(spec, primals, attributes).types
    whole = operand_checks.leading_shape(spec, primals)
    lead, depth = len(whole), spec.depth(primals)
    axes = [
        len(t.shape) - (depth if i in spec.shared_results else lead)
        for i, t in enumerate(types)
        if _is_inexact(t)
    ]
    outs = _jax_hooks.bind(spec.primitive, primals, attributes)
    if not axes:
        return outs, list(map(_no_tangent, outs))
    push = differentiate.jvp(tuple(active), axes)
    operands = [*primals, *active.values()]
    if spec.loops:  # and operands may have axes of size one
        operands = [
            x
            if i in spec.shared
            else jnp.broadcast_to(x, (*whole, *x.shape[lead:]))
            for i, x in zip(
                (*range(len(primals)), *active), operands, strict=True
            )
        ]
    found = push(*operands, **attributes.for_reference)
    slopes = iter(flatten(found))
    return outs, [
        next(slopes) if _is_inexact(o) else _no_tangent(o) for o in outs
    ]


def _author_jvp(
    spec: OpSpec,
    primals: Values,
    tangents: Sequence[Tangent],
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    full = _instantiated(primals, tangents)
    expected = abstract_eval.results(spec, primals, attributes).types
    outs, out_tangents = shared_operands.jvp(
        spec, primals, full, attributes, len(expected)
    )
    checked = [
        rule_checks.like(spec, "jvp: primal result", i, o, e)
        for i, (o, e) in enumerate(zip(outs, expected, strict=True))
    ]
    return checked, [
        rule_checks.like(spec, "jvp: tangent result", i, t, o)
        if _is_inexact(o)
        else _no_tangent(o)
        for i, (t, o) in enumerate(zip(out_tangents, checked, strict=True))
    ]


def _instantiated(
    primals: Values, tangents: Sequence[Tangent]
) -> tuple[shared_operands.Tangent, ...]:
    return tuple(
        np.zeros(p.shape, jax.dtypes.float0)
        if _is_zero(t) and not _is_inexact(p)
        else ad.instantiate_zeros(t)
        for p, t in zip(primals, tangents, strict=True)
    )


def _author_vjp(
    spec: OpSpec,
    primals: Values,
    tangents: Sequence[Tangent],
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """Returns the tangents of the author's vjp, for reverse mode only."""
    results = abstract_eval.results(spec, primals, attributes)
    call = _custom_vjp(spec, primals, results, attributes)
    try:
        outs, out_tangents = jax.jvp(
            shared_operands.over_batches(spec, call, primals),
            tuple(primals),
            _instantiated(primals, tangents),
        )
    except TypeError as error:
        if "forward-mode" not in str(error):
            raise
        raise NotDifferentiableError(
            f"{spec.name}: no forward mode (jvp, jacfwd, linearize): "
            "vjp=(fwd, bwd) is for reverse mode alone, so give it jvp="
        ) from None
    for i, (out, wanted) in enumerate(zip(outs, results.types, strict=True)):
        rule_checks.like(spec, "vjp: fwd: result", i, out, wanted)
    return outs, [
        t if _is_inexact(o) else _no_tangent(o)
        for t, o in zip(out_tangents, outs, strict=True)
    ]


def _custom_vjp(
    spec: OpSpec,
    primals: Values,
    results: Results,
    attributes: AttributeValues,
) -> Callable[..., Arrays]:
    """The operation as a function with the author's derivative."""
    assert spec.vjp is not None
    forward, backward = spec.vjp
    rows = shared_operands.row_types(spec, primals)
    given = attributes.for_reference

    @jax.custom_vjp
    def call(*operands: jax.Array) -> Arrays:
        return tuple(_jax_hooks.bind(spec.primitive, operands, attributes))

    def fwd(*operands: jax.Array) -> tuple[Arrays, object]:
        returned = forward(*spec.fill(operands), **given)
        outs, residuals = rule_checks.pair(
            spec, "vjp: fwd", "(results, residuals)", returned
        )
        what, count = "vjp: fwd: results", len(results.types)
        found = rule_checks.arrays(spec, what, outs, count)
        return tuple(map(rule_checks.strong, found)), residuals

    def bwd(residuals: object, cotangents: Arrays) -> Cotangents:
        out = backward(residuals, results.pack(cotangents), **given)
        found = rule_checks.cotangents(
            spec, "vjp: bwd: cotangents", out, spec.places, "operand"
        )
        slopes = [found[operand.place] for operand in spec.operands]
        what = "vjp: bwd: cotangent"
        return tuple(
            None
            if slope is None or not _is_inexact(row)
            else rule_checks.like(spec, what, i, slope, row)
            for i, (slope, row) in enumerate(zip(slopes, rows, strict=True))
        )

    call.defvjp(fwd, bwd)
    return cast(Callable[..., Arrays], call)


def transpose(
    spec: OpSpec,
    cotangents: Sequence[Tangent],
    *operands: Operand,
    attributes: AttributeValues,
) -> list[Tangent | None]:
    """The rule of an operation's primitive for its linear operands."""
    unknown = {
        i: x.aval
        for i, x in enumerate(operands)
        if isinstance(x, ad.UndefinedPrimal)
    }
    for i in unknown:
        if i not in spec.linear:
            raise TypeError(
                f"{spec.name}: cannot transpose with respect to operand "
                f"{spec.operand_names[i]}: not listed in `linear`"
            )
    if not any(unknown.keys() <= set(group) for group in spec.linear_groups):
        names = " and ".join(spec.operand_names[i] for i in unknown)
        raise TypeError(
            f"{spec.name}: cannot transpose with respect to {names} together: "
            "the operation is bilinear, which is linear in one of them while "
            "the other is fixed"
        )
    if all(_is_zero(ct) for ct in cotangents):
        return [
            ad.Zero(x.aval) if isinstance(x, ad.UndefinedPrimal) else None
            for x in operands
        ]
    if spec.transpose is None and spec.reference is None:
        raise NotDifferentiableError(
            f"{spec.name}: no reverse mode with respect to linear operands: "
            "the operation has no reference, so give it transpose="
        )
    values: dict[int, jax.Array | None]
    if spec.transpose is not None:
        given = [None if isinstance(x, ad.Zero) else x for x in cotangents]
        out = shared_operands.transpose(spec, given, operands, attributes)
        values = dict(zip(spec.linear, out, strict=True))
    else:
        # The reference is linear in these operands: its VJP at zero is its
        # transpose.
        _, pull_back = jax.vjp(
            _reference_of(spec, operands, list(unknown), attributes),
            *(ad.instantiate_zeros(ad.Zero(a)) for a in unknown.values()),
        )
        full = tuple(ad.instantiate_zeros(ct) for ct in cotangents)
        values = dict(zip(unknown, pull_back(full), strict=True))
    what = "transpose: cotangent of operand"
    result: list[Tangent | None] = [None] * len(operands)
    for i, aval in unknown.items():
        found = rule_checks.like(spec, what, i, values[i], aval)
        result[i] = partitioning.placed_like(found, aval)
    return result


def _is_zero(value: object) -> bool:
    return isinstance(value, ad.Zero)


def _is_inexact(x: Typed) -> bool:
    """Whether an operand or result may have a tangent other than zero."""
    return jnp.issubdtype(x.dtype, np.inexact)


def _no_tangent(primal: jax.Array) -> ad.Zero:
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def _sum_tangents(primal: jax.Array, tangents: Values) -> Tangent:
    if not _is_inexact(primal):
        return _no_tangent(primal)
    return functools.reduce(operator.add, tangents)
