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
from xla_ffi_kit._check import Typed, is_inexact
from xla_ffi_kit.errors import NotDifferentiableError
from xla_ffi_kit.op import batch_axes, rule_checks
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.operands import strong
from xla_ffi_kit.op.rule_checks import Cotangents
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
# An operand, or what stands for one whose cotangent is asked for.
LinearOperand: TypeAlias = jax.Array | ad.UndefinedPrimal


# --- Forward mode -------------------------------------------------------------


def jvp(
    spec: OpSpec,
    primals: Values,
    tangents: Sequence[Tangent],
    *,
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """The rule of an operation's primitive for forward mode."""
    # In `jax.grad(op)(2.0)`, JAX passes the Python number itself.
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
        derivatives = spec.advanced.differentiate
        return _kernel_jvp(spec, derivatives, primals, active, attributes)
    if nonlinear and spec.solves is not None:
        outs, slopes = solves.jvp(spec, primals, active, attributes)
        return outs, [
            _no_tangent(y) if t is None else t
            for y, t in zip(outs, slopes, strict=True)
        ]
    if nonlinear and spec.reference is None:
        results = abstract_eval.results(spec, primals, attributes)
        if not any(map(is_inexact, results.types)):
            outs = _jax_hooks.bind(spec.primitive, primals, attributes)
            return outs, list(map(_no_tangent, outs))
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


def _reference_of(
    spec: OpSpec,
    operands: Sequence[LinearOperand],
    active: Sequence[int],
    attributes: AttributeValues,
) -> Callable[..., Arrays]:
    """The reference as a function of only the `active` operands."""
    assert spec.reference is not None
    run = functools.partial(batch_axes.in_jax, spec, spec.reference, attributes)
    return of_active(run, operands, active)


def _kernel_jvp(
    spec: OpSpec,
    derivatives: OwnDerivatives,
    primals: Values,
    active: Mapping[int, jax.Array],
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """The tangents by an operation that the spec makes for it."""
    types = abstract_eval.results(spec, primals, attributes).types
    lead = batch_axes.leading_shape(spec, primals)
    rank, depth = len(lead), spec.depth(primals)
    axes = [
        len(t.shape) - (depth if i in spec.shared_results else rank)
        for i, t in enumerate(types)
        if is_inexact(t)
    ]
    moving = list(active.values())
    by_jacobian = None
    if depth == 0 and not spec.advanced.has_side_effect:
        by_jacobian = derivatives.jacobian(
            spec,
            tuple(active),
            [
                jax.ShapeDtypeStruct(x.shape[spec.batch_rank(i, x) :], x.dtype)
                for i, x in enumerate(primals)
            ],
            [jax.ShapeDtypeStruct(t.shape[rank:], t.dtype) for t in types],
        )
    if by_jacobian is not None:
        return by_jacobian(*primals, *moving, **attributes.for_reference)
    outs = _jax_hooks.bind(spec.primitive, primals, attributes)
    if not axes:
        return outs, list(map(_no_tangent, outs))
    operands = [*primals, *moving]
    if spec.loops:
        # `vmap` has left axes of size one, which the operation of the tangents
        # would not know from batch axes.
        indices = (*range(len(primals)), *active)
        operands = [
            x
            if i in spec.shared
            else jnp.broadcast_to(x, (*lead, *x.shape[rank:]))
            for i, x in zip(indices, operands, strict=True)
        ]
    push_forward = derivatives.jvp(tuple(active), axes)
    slopes = push_forward(*operands, **attributes.for_reference)
    remaining = iter(flatten(slopes))
    return outs, [
        next(remaining) if is_inexact(o) else _no_tangent(o) for o in outs
    ]


def _author_jvp(
    spec: OpSpec,
    primals: Values,
    tangents: Sequence[Tangent],
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """The results and tangents of the author's jvp, checked."""
    rule = spec.jvp
    assert rule is not None
    types = abstract_eval.results(spec, primals, attributes).types
    count = len(types)

    def call(
        primals: Arrays, tangents: tuple[batch_axes.Tangent | None, ...]
    ) -> tuple[Arrays, Arrays]:
        returned = rule(
            tuple(spec.fill(primals)),
            tuple(spec.fill(tangents)),
            **attributes.for_reference,
        )
        outs, slopes = rule_checks.pair(
            spec, "jvp", "(results, tangents)", returned
        )
        each = ", one for each result"
        return (
            rule_checks.arrays(spec, "jvp: results", outs, count),
            rule_checks.arrays(spec, "jvp: tangents", slopes, count, each),
        )

    for axes in batch_axes.mapped_axes(spec, primals):
        call = jax.vmap(call, (axes, axes))
    full: Sequence[batch_axes.Tangent | None]
    full = _instantiated(primals, tangents)
    if spec.advanced.symbolic_zeros:
        zeros = map(_is_zero, tangents)
        full = [None if z else t for z, t in zip(zeros, full, strict=True)]
    outs, slopes = call(
        tuple(batch_axes.without_ones(spec, primals, primals)),
        tuple(batch_axes.without_ones(spec, primals, full)),
    )
    checked = [
        rule_checks.like(spec, "jvp: primal result", i, out, type_)
        for i, (out, type_) in enumerate(zip(outs, types, strict=True))
    ]
    return checked, [
        rule_checks.like(spec, "jvp: tangent result", i, slope, out)
        if is_inexact(out)
        else _no_tangent(out)
        for i, (slope, out) in enumerate(zip(slopes, checked, strict=True))
    ]


def _instantiated(
    primals: Values, tangents: Sequence[Tangent]
) -> tuple[batch_axes.Tangent, ...]:
    return tuple(
        np.zeros(p.shape, jax.dtypes.float0)
        if _is_zero(t) and not is_inexact(p)
        else ad.instantiate_zeros(t)
        for p, t in zip(primals, tangents, strict=True)
    )


# --- Reverse mode -------------------------------------------------------------


def _author_vjp(
    spec: OpSpec,
    primals: Values,
    tangents: Sequence[Tangent],
    attributes: AttributeValues,
) -> tuple[Values, Sequence[Tangent]]:
    """The tangents of the author's vjp, for reverse mode only."""
    results = abstract_eval.results(spec, primals, attributes)
    call = _custom_vjp(spec, primals, results, attributes)
    try:
        outs, slopes = jax.jvp(
            batch_axes.over_batches(spec, call, primals),
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
    for i, (out, type_) in enumerate(zip(outs, results.types, strict=True)):
        rule_checks.like(spec, "vjp: fwd: result", i, out, type_)
    return outs, [
        t if is_inexact(o) else _no_tangent(o)
        for t, o in zip(slopes, outs, strict=True)
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
    rows = batch_axes.row_types(spec, primals)
    keywords = attributes.for_reference

    @jax.custom_vjp
    def call(*operands: jax.Array) -> Arrays:
        return tuple(_jax_hooks.bind(spec.primitive, operands, attributes))

    def fwd(*operands: jax.Array) -> tuple[Arrays, object]:
        returned = forward(*spec.fill(operands), **keywords)
        form = "(results, residuals)"
        outs, residuals = rule_checks.pair(spec, "vjp: fwd", form, returned)
        what, count = "vjp: fwd: results", len(results.types)
        return (
            tuple(map(strong, rule_checks.arrays(spec, what, outs, count))),
            residuals,
        )

    def bwd(residuals: object, cotangents: Arrays) -> Cotangents:
        returned = backward(residuals, results.pack(cotangents), **keywords)
        what = "vjp: bwd: cotangents"
        slopes = rule_checks.cotangents(
            spec, what, returned, spec.full_count, "operand"
        )
        what = "vjp: bwd: cotangent"
        return tuple(
            None
            if slopes[operand.position] is None or not is_inexact(row)
            else rule_checks.like(spec, what, i, slopes[operand.position], row)
            for i, (operand, row) in enumerate(
                zip(spec.operands, rows, strict=True)
            )
        )

    call.defvjp(fwd, bwd)
    return cast(Callable[..., Arrays], call)


def transpose(
    spec: OpSpec,
    cotangents: Sequence[Tangent],
    *operands: LinearOperand,
    attributes: AttributeValues,
) -> list[Tangent | None]:
    """The rule of an operation's primitive for its linear operands."""
    linear = {
        i: x.aval
        for i, x in enumerate(operands)
        if isinstance(x, ad.UndefinedPrimal)
    }
    for i in linear:
        if i not in spec.linear:
            raise TypeError(
                f"{spec.name}: cannot transpose with respect to operand "
                f"{spec.operand_names[i]}: not listed in `linear`"
            )
    if not any(linear.keys() <= set(group) for group in spec.linear_groups):
        names = " and ".join(spec.operand_names[i] for i in linear)
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
        values = _author_transpose(spec, cotangents, operands, attributes)
    else:
        # The reference is linear in these operands: its VJP at zero is its
        # transpose.
        _, pull_back = jax.vjp(
            _reference_of(spec, operands, list(linear), attributes),
            *(ad.instantiate_zeros(ad.Zero(a)) for a in linear.values()),
        )
        full = tuple(ad.instantiate_zeros(ct) for ct in cotangents)
        values = dict(zip(linear, pull_back(full), strict=True))
    what = "transpose: cotangent of operand"
    result: list[Tangent | None] = [None] * len(operands)
    for i, aval in linear.items():
        cotangent = rule_checks.like(spec, what, i, values[i], aval)
        result[i] = partitioning.placed_like(cotangent, aval)
    return result


def _author_transpose(
    spec: OpSpec,
    cotangents: Sequence[Tangent],
    operands: Sequence[LinearOperand],
    attributes: AttributeValues,
) -> dict[int, jax.Array | None]:
    """The cotangents of linear operands by the author's rule."""
    rule = spec.transpose
    assert rule is not None
    types: list[Typed] = [
        x.aval if isinstance(x, ad.UndefinedPrimal) else x for x in operands
    ]
    values = {
        i: x
        for i, x in enumerate(operands)
        if not isinstance(x, ad.UndefinedPrimal)
    }
    rows = batch_axes.row_types(spec, types)
    count = len(spec.linear_slots)

    def call(
        cotangents: tuple[jax.Array | None, ...], values: dict[int, jax.Array]
    ) -> Cotangents:
        full = [values.get(i, row) for i, row in enumerate(rows)]
        results = cotangents if len(cotangents) > 1 else cotangents[0]
        returned = rule(results, *spec.fill(full), **attributes.for_reference)
        what, each = "transpose: cotangents", "linear operand"
        slots = zip(
            spec.linear_slots,
            rule_checks.cotangents(spec, what, returned, count, each),
            strict=True,
        )
        return tuple(ct for slot, ct in slots if slot is not None)

    for axes in batch_axes.mapped_axes(spec, types):
        call = jax.vmap(call, (0, {i: axes[i] for i in values}))
    absent = batch_axes.absent_axes(spec, types)
    row_values = {
        i: x if i in spec.shared else x.squeeze(absent[i])
        for i, x in values.items()
    }
    nonzero = tuple(None if isinstance(x, ad.Zero) else x for x in cotangents)
    return {
        i: ct
        if ct is None
        else jnp.sum(ct, absent[i], keepdims=i not in spec.shared)
        for i, ct in zip(spec.linear, call(nonzero, row_values), strict=True)
    }


# --- Tangents -----------------------------------------------------------------


def _is_zero(value: object) -> bool:
    return isinstance(value, ad.Zero)


def _no_tangent(primal: jax.Array) -> ad.Zero:
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def _sum_tangents(primal: jax.Array, tangents: Values) -> Tangent:
    if not is_inexact(primal):
        return _no_tangent(primal)
    return functools.reduce(operator.add, tangents)
