"""The derivatives of an operation: jvp and transpose.

If the author gives a first-order rule, it is used. Every other derivative is
the reference's.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._jax_hooks import Primitive
from xla_ffi_kit.primitive import rule_checks, shared_operands
from xla_ffi_kit.primitive.abstract_eval import ResultTypes
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.rule_checks import Cotangents
from xla_ffi_kit.primitive.shared_operands import Operand
from xla_ffi_kit.primitive.spec import (
    Arrays,
    NotDifferentiableError,
    OpSpec,
)

Values: TypeAlias = Sequence[jax.Array]
Tangent: TypeAlias = jax.Array | ad.Zero


class Derivatives:
    """The rules of one operation's primitive."""

    def __init__(
        self, spec: OpSpec, primitive: Primitive, types: ResultTypes
    ) -> None:
        self._spec = spec
        self._primitive = primitive
        self._types = types

    def install(self) -> None:
        """Registers the rules with JAX."""
        ad.primitive_jvps[self._primitive] = self._jvp
        if self._spec.linear:
            ad.primitive_transposes[self._primitive] = self._transpose

    def _reference_of(
        self,
        operands: Sequence[Operand],
        active: Sequence[int],
        attributes: AttributeValues,
    ) -> Callable[..., Arrays]:
        """The reference as a function of only the `active` operands."""

        def call(*values: jax.Array) -> Arrays:
            full = cast(list[jax.Array], list(operands))
            for i, value in zip(active, values, strict=True):
                full[i] = value
            spec = self._spec
            return shared_operands.in_jax(
                spec, spec.reference, attributes, *full
            )

        return call

    def _jvp(
        self,
        primals: Values,
        tangents: Sequence[Tangent],
        *,
        attributes: AttributeValues,
    ) -> tuple[Values, Sequence[Tangent]]:
        spec = self._spec
        # Derivatives with respect to a Python number come with the number.
        primals = [jnp.asarray(x) for x in primals]
        active = {i: t for i, t in enumerate(tangents) if not _is_zero(t)}
        nonlinear = [i for i in active if i not in spec.linear]
        if nonlinear and spec.jvp is not None:
            return self._author_jvp(primals, tangents, attributes)
        if nonlinear and spec.vjp is not None:
            return self._author_vjp(primals, tangents, attributes)
        if nonlinear and spec.reference is None:
            names = ", ".join(spec.operand_names[i] for i in nonlinear)
            raise NotDifferentiableError(
                f"{spec.name}: no derivative with respect to operand {names}: "
                "the operation has no reference, so give it jvp= or vjp="
            )

        outs = _jax_hooks.bind(self._primitive, primals, attributes)
        parts: list[Values] = []
        if len(nonlinear) < len(active):
            operands = list(primals)
            for i in spec.linear:
                operands[i] = ad.instantiate_zeros(tangents[i])
            parts.append(_jax_hooks.bind(self._primitive, operands, attributes))
        if nonlinear:
            _, part = jax.jvp(
                self._reference_of(primals, nonlinear, attributes),
                tuple(primals[i] for i in nonlinear),
                tuple(active[i] for i in nonlinear),
            )
            parts.append(part)
        return outs, [
            _sum_tangents(out, ts)
            for out, *ts in zip(outs, *parts, strict=True)
        ]

    def _author_jvp(
        self,
        primals: Values,
        tangents: Sequence[Tangent],
        attributes: AttributeValues,
    ) -> tuple[Values, Sequence[Tangent]]:
        full = self._instantiated(primals, tangents)
        expected = self._types(primals, attributes).types
        outs, out_tangents = shared_operands.jvp(
            self._spec, primals, full, attributes, len(expected)
        )
        checked = [
            rule_checks.like(self._spec, "jvp: primal result", i, o, e)
            for i, (o, e) in enumerate(zip(outs, expected, strict=True))
        ]
        return checked, [
            rule_checks.like(self._spec, "jvp: tangent result", i, t, o)
            if jnp.issubdtype(o.dtype, np.inexact)
            else _no_tangent(o)
            for i, (t, o) in enumerate(zip(out_tangents, checked, strict=True))
        ]

    @staticmethod
    def _instantiated(
        primals: Values, tangents: Sequence[Tangent]
    ) -> tuple[shared_operands.Tangent, ...]:
        return tuple(
            np.zeros(p.shape, jax.dtypes.float0)
            if _is_zero(t) and not jnp.issubdtype(p.dtype, np.inexact)
            else ad.instantiate_zeros(t)
            for p, t in zip(primals, tangents, strict=True)
        )

    def _author_vjp(
        self,
        primals: Values,
        tangents: Sequence[Tangent],
        attributes: AttributeValues,
    ) -> tuple[Values, Sequence[Tangent]]:
        """Returns the tangents of the author's vjp, for reverse mode only."""
        assert self._spec.vjp is not None
        forward, backward = self._spec.vjp
        results = self._types(primals, attributes)
        rows = shared_operands.row_types(self._spec, primals)

        @jax.custom_vjp
        def call(*operands: jax.Array) -> Arrays:
            return tuple(_jax_hooks.bind(self._primitive, operands, attributes))

        def fwd(*operands: jax.Array) -> tuple[Arrays, object]:
            returned = forward(*operands, **attributes.for_reference)
            outs, residuals = rule_checks.pair(
                self._spec, "vjp: fwd", "(results, residuals)", returned
            )
            count = len(results.types)
            what = "vjp: fwd: results"
            return (
                rule_checks.arrays(self._spec, what, outs, count),
                residuals,
            )

        def bwd(residuals: object, cotangents: Arrays) -> Cotangents:
            out = backward(
                residuals,
                results.pack(cotangents),
                **attributes.for_reference,
            )
            slopes = rule_checks.cotangents(
                self._spec, "vjp: bwd: cotangents", out, len(rows), "operand"
            )
            what = "vjp: bwd: cotangent"
            return tuple(
                None
                if slope is None or not jnp.issubdtype(row.dtype, np.inexact)
                else rule_checks.like(self._spec, what, i, slope, row)
                for i, (slope, row) in enumerate(zip(slopes, rows, strict=True))
            )

        call.defvjp(fwd, bwd)
        try:
            outs, out_tangents = jax.jvp(
                shared_operands.over_batches(self._spec, call, primals),
                tuple(primals),
                self._instantiated(primals, tangents),
            )
        except TypeError as error:
            if "forward-mode" not in str(error):
                raise
            raise NotDifferentiableError(
                f"{self._spec.name}: no forward mode (jvp, jacfwd, linearize): "
                "vjp=(fwd, bwd) is for reverse mode alone, so give it jvp="
            ) from None
        expected = zip(outs, results.types, strict=True)
        for i, (out, wanted) in enumerate(expected):
            rule_checks.like(self._spec, "vjp: fwd: result", i, out, wanted)
        return outs, [
            t if jnp.issubdtype(o.dtype, np.inexact) else _no_tangent(o)
            for t, o in zip(out_tangents, outs, strict=True)
        ]

    def _transpose(
        self,
        cotangents: Sequence[Tangent],
        *operands: Operand,
        attributes: AttributeValues,
    ) -> list[Tangent | None]:
        spec = self._spec
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
        result: list[Tangent | None] = [None] * len(operands)
        if all(_is_zero(ct) for ct in cotangents):
            for i, aval in unknown.items():
                result[i] = ad.Zero(aval)
            return result
        if spec.transpose is None and spec.reference is None:
            raise NotDifferentiableError(
                f"{spec.name}: no reverse mode with respect to linear "
                "operands: the operation has no reference, so give it "
                "transpose="
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
                self._reference_of(operands, list(unknown), attributes),
                *(ad.instantiate_zeros(ad.Zero(a)) for a in unknown.values()),
            )
            full = tuple(ad.instantiate_zeros(ct) for ct in cotangents)
            values = dict(zip(unknown, pull_back(full), strict=True))
        for i, aval in unknown.items():
            what = "transpose: cotangent of operand"
            result[i] = rule_checks.like(spec, what, i, values[i], aval)
        return result


def _is_zero(value: object) -> bool:
    return isinstance(value, ad.Zero)


def _no_tangent(primal: jax.Array) -> ad.Zero:
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def _sum_tangents(primal: jax.Array, tangents: Values) -> Tangent:
    if not jnp.issubdtype(primal.dtype, np.inexact):
        return _no_tangent(primal)
    return functools.reduce(operator.add, tangents)
