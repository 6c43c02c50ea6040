"""What JAX's transformations do to an operation: jvp, transpose, vmap.

All three follow from the operation's spec. The first-order rules of the author
are used where there are any; every other derivative is the reference's.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit._jax_hooks import Primitive
from xla_ffi_kit.op import _operands, _shared
from xla_ffi_kit.op._attributes import AttributeValues
from xla_ffi_kit.op._shared import Operand
from xla_ffi_kit.op._types import ResultTypes
from xla_ffi_kit.op.spec import (
    Arrays,
    NotDifferentiableError,
    OpSpec,
    flatten,
)

Values: TypeAlias = Sequence[jax.Array]
Tangent: TypeAlias = jax.Array | ad.Zero
Dims: TypeAlias = Sequence[int | None]
_T = TypeVar("_T", bound=Typed)


class Rules:
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
        batching.primitive_batchers[self._primitive] = self._batch

    def bind(
        self, operands: Values, attributes: AttributeValues
    ) -> list[jax.Array]:
        """Applies the primitive; a list of results."""
        if len(operands) > 1:
            operands = _jax_hooks.match_manual_axes(operands)
        results: list[jax.Array] = self._primitive.bind(
            *operands, attributes=attributes
        )
        return results

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
            return _shared.in_jax(spec, spec.reference, attributes, *full)

        return call

    def _jvp(
        self,
        primals: Values,
        tangents: Sequence[Tangent],
        *,
        attributes: AttributeValues,
    ) -> tuple[Values, Sequence[Tangent]]:
        spec = self._spec
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

        outs = self.bind(primals, attributes)
        parts: list[Values] = []
        if len(nonlinear) < len(active):
            operands = list(primals)
            for i in spec.linear:
                operands[i] = ad.instantiate_zeros(tangents[i])
            parts.append(self.bind(operands, attributes))
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
        outs, out_tangents = _shared.jvp(self._spec, primals, full, attributes)
        expected = self._types(primals, attributes)
        checked = [
            self._check_like("jvp: primal result", i, o, e)
            for i, (o, e) in enumerate(zip(outs, expected, strict=True))
        ]
        return checked, [
            self._check_like("jvp: tangent result", i, t, o)
            if jnp.issubdtype(o.dtype, np.inexact)
            else _no_tangent(o)
            for i, (t, o) in enumerate(zip(out_tangents, checked, strict=True))
        ]

    @staticmethod
    def _instantiated(
        primals: Values, tangents: Sequence[Tangent]
    ) -> tuple[_shared.Tangent, ...]:
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
        """The tangents as `jax.custom_vjp` has them: for reverse mode."""
        assert self._spec.vjp is not None
        forward, backward = self._spec.vjp
        types = self._types(primals, attributes)

        @jax.custom_vjp
        def call(*operands: jax.Array) -> Arrays:
            return tuple(self.bind(operands, attributes))

        def fwd(*operands: jax.Array) -> tuple[Arrays, object]:
            returned = forward(*operands, **attributes.for_reference)
            if not (isinstance(returned, tuple) and len(returned) == 2):
                raise TypeError(
                    f"{self._spec.name}: vjp: fwd: expected (results, "
                    f"residuals), got {type(returned).__name__}"
                )
            outs = flatten(returned[0])
            self._check_count("vjp: fwd: results", outs, types)
            return outs, (returned[1], operands)

        def bwd(
            saved: tuple[object, Arrays], cotangents: Arrays
        ) -> tuple[jax.Array | None, ...]:
            residuals, operands = saved
            out = backward(
                residuals,
                self._types.pack(cotangents),
                **attributes.for_reference,
            )
            slopes = tuple(out) if isinstance(out, Sequence) else (out,)
            self._check_count("vjp: bwd: cotangents", slopes, operands)
            return tuple(
                None
                if slope is None or not jnp.issubdtype(x.dtype, np.inexact)
                else self._check_like("vjp: bwd: cotangent", i, slope, x)
                for i, (slope, x) in enumerate(
                    zip(slopes, operands, strict=True)
                )
            )

        call.defvjp(fwd, bwd)
        outs, out_tangents = jax.jvp(
            _shared.over_batches(self._spec, call, primals),
            tuple(primals),
            self._instantiated(primals, tangents),
        )
        expected = zip(outs, types, strict=True)
        for i, (out, wanted) in enumerate(expected):
            self._check_like("vjp: fwd: result", i, out, wanted)
        return outs, [
            t if jnp.issubdtype(o.dtype, np.inexact) else _no_tangent(o)
            for t, o in zip(out_tangents, outs, strict=True)
        ]

    def _check_count(
        self, what: str, got: Sequence[object], wanted: Sequence[object]
    ) -> None:
        if len(got) != len(wanted):
            raise TypeError(self._spec.error(what, str(len(wanted)), len(got)))

    def _check_like(self, what: str, i: int, got: _T | None, want: Typed) -> _T:
        if got is None or (got.shape, got.dtype) != (want.shape, want.dtype):
            raise TypeError(
                f"{self._spec.name}: {what} {i}: expected "
                f"{_operands.type_name(want)}, got "
                f"{got if got is None else _operands.type_name(got)}"
            )
        return got

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
            out = _shared.transpose(spec, given, operands, attributes)
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
            result[i] = self._check_like(what, i, values[i], aval)
        return result

    def _batch(
        self, operands: Values, dims: Dims, *, attributes: AttributeValues
    ) -> tuple[Values, Dims]:
        if self._spec.vmap_method == "sequential" or (
            # Nothing runs shared operands with batch axes.
            self._spec.partitioned is None
            and not self._spec.batches_shared
            and any(dims[i] is not None for i in self._spec.shared)
        ):
            return self._batch_sequentially(operands, dims, attributes)
        at = self._same_batch_axis(operands, dims)
        if at is None:
            at = self._place_of_new_axis(operands, dims)
            size = next(
                x.shape[d]
                for x, d in zip(operands, dims, strict=True)
                if d is not None
            )
            missing = 1 if self._spec.vmap_method == "expand_dims" else size
            operands = [
                x
                if d is None and self._does_without(i, x, at)
                else _with_batch_axis(x, d, missing, at)
                for i, (x, d) in enumerate(zip(operands, dims, strict=True))
            ]
        outs = self.bind(operands, attributes)
        return outs, [at] * len(outs)

    def _does_without(self, index: int, operand: Typed, at: int) -> bool:
        """Whether an operand may lack the batch axis `at`, being shared."""
        return (
            index in self._spec.shared
            # These are a sum for each element of that axis.
            and not self._spec.shared_results
            and self._spec.own_axes(index, operand) <= at
        )

    def _place_of_new_axis(self, operands: Values, dims: Dims) -> int:
        """First, or behind the batch axes of shared operands that lack it."""
        spec = self._spec
        if spec.shared_results or any(dims[i] is not None for i in spec.shared):
            return 0
        return spec.depth(operands)

    def _same_batch_axis(self, operands: Values, dims: Dims) -> int | None:
        """The axis, if it is one that all operands batch over already."""
        known = {d for d in dims if d is not None}
        if len(known) != 1:
            return None
        (at,) = known
        for i, (x, d) in enumerate(zip(operands, dims, strict=True)):
            if d is None and not self._does_without(i, x, at):
                return None
            if d is not None and at >= self._spec.own_axes(i, x):
                return None
        return at

    def _batch_sequentially(
        self, operands: Values, dims: Dims, attributes: AttributeValues
    ) -> tuple[Values, Dims]:
        axes = {i: d for i, d in enumerate(dims) if d is not None}
        rows = tuple(jnp.moveaxis(operands[i], d, 0) for i, d in axes.items())

        def step(row: Arrays) -> Arrays:
            full = list(operands)
            for i, value in zip(axes, row, strict=True):
                full[i] = value
            return tuple(self.bind(full, attributes))

        outs = jax.lax.map(step, rows)
        return list(outs), [0] * len(outs)


def _is_zero(value: object) -> bool:
    return isinstance(value, ad.Zero)


def _no_tangent(primal: jax.Array) -> ad.Zero:
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def _sum_tangents(primal: jax.Array, tangents: Values) -> Tangent:
    if not jnp.issubdtype(primal.dtype, np.inexact):
        return _no_tangent(primal)
    return functools.reduce(operator.add, tangents)


def _with_batch_axis(
    x: jax.Array, dim: int | None, size: int, at: int
) -> jax.Array:
    if dim is None:
        x, dim = jax.lax.broadcast(x, (size,)), 0
    return jnp.moveaxis(x, dim, at) if dim != at else x
