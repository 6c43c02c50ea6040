"""`derivatives="kernel"`: strings whose derivatives are the strings themselves.

The string is compiled again, for numbers that know their derivatives, when a
program that needs it is lowered. Each derivative is an operation, with the
derivative of the reference as its reference, and of which the derivatives are
such operations again: xla_ffi/strings/derive/derived.h.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import ffi_op
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op import declare
from xla_ffi_kit.op.spec import (
    Advanced,
    DeviceKernel,
    Result,
    flatten,
    of_active,
    targets_of,
)
from xla_ffi_kit.strings.derive.function import Function
from xla_ffi_kit.strings.derive.kernel import Kernel, String

# Arrays, tracers, types and what authors return of them: JAX has no one type.
Value: TypeAlias = Any


class Differentiable:
    """A function of a string, and the operations that are its derivatives."""

    def __init__(
        self,
        string: String,
        function: Function,
        reference: Callable[..., Value] | None,
        results: Callable[..., Value] | None,
    ) -> None:
        self._string = string
        self._function = function
        self._reference = reference
        self._results = results
        self._made: dict[object, FfiOp[Result]] = {}
        self._kernels: list[Kernel] = []
        self.over_rows: Callable[..., Value] | None = None

    def jvp(
        self, active: Sequence[int], result_axes: Sequence[int]
    ) -> FfiOp[Result]:
        """`op(*operands, *tangents of active ones)`: tangents of results."""
        return self._remembered(
            ("jvp", (*active,), (*result_axes,)),
            lambda: self._jvp(tuple(active), result_axes),
        )

    def vjp(
        self, active: Sequence[int], result_axes: Sequence[int]
    ) -> FfiOp[Result]:
        """`op(*operands, *cotangents of results)`: those of active ones."""
        return self._remembered(
            ("vjp", (*active,), (*result_axes,)),
            lambda: self._vjp(tuple(active), result_axes),
        )

    def targets(self) -> list[str]:
        """The targets of those compiled so far, and of their derivatives."""
        found: list[str] = []
        for op in list(self._made.values()):
            for handler in op.spec.handlers.values():
                if isinstance(handler, Kernel) and not handler.is_ready:
                    continue
                found += targets_of(handler)
            made = op.spec.advanced.differentiate
            found += [] if made is None else made.targets()
        return found

    def report(self) -> str:
        """Where the derivatives come from, and those made so far."""
        way = "all slopes of an element in one pass"
        if self._function.form == "Row":
            way = "forward mode, and reverse mode by a tape"
        on = "cpu" if self._string.on_cuda is None else "cpu and cuda"
        others = "the reference's" if self._reference is not None else "none"
        made = ", ".join(kernel.how() for kernel in self._kernels)
        return (
            f"the string's own on {on}, {way}; elsewhere {others}; made so "
            f"far: {made or 'none'}"
        )

    def _remembered(
        self, key: object, make: Callable[[], FfiOp[Result]]
    ) -> FfiOp[Result]:
        if key not in self._made:
            self._made.setdefault(key, make())
        return self._made[key]

    def _jvp(
        self, active: tuple[int, ...], result_axes: Sequence[int]
    ) -> FfiOp[Result]:
        count = len(self._function.operands)
        function = self._function.jvp(active, result_axes)

        def of_reference(*values: Value, **attributes: Value) -> Value:
            call, moving = self._reference_of(
                active, values[:count], attributes
            )
            return jax.jvp(call, moving, tuple(values[count:]))[1]

        def shapes(*values: Value, **attributes: Value) -> Value:
            assert self._results is not None
            found = self._results(*values[:count], **attributes)
            return floats(found)

        def transpose(
            cotangents: Value, *operands: Value, **attributes: Value
        ) -> Value:
            known = operands[:count]
            given = _filled(self, cotangents, known, attributes)
            pulled = self.vjp(active, result_axes)
            return flatten(pulled(*known, *given, **attributes))

        return self._make(function, of_reference, shapes, transpose)

    def _vjp(
        self, active: tuple[int, ...], result_axes: Sequence[int]
    ) -> FfiOp[Result]:
        count = len(self._function.operands)
        function = self._function.vjp(active, result_axes)

        def of_reference(*values: Value, **attributes: Value) -> Value:
            call, moving = self._reference_of(
                active, values[:count], attributes
            )
            outs, pull = jax.vjp(call, *moving)
            given = values[count:]
            found = pull(given if isinstance(outs, tuple) else given[0])
            return found if len(found) > 1 else found[0]

        def shapes(*values: Value, **attributes: Value) -> Value:
            found = tuple(
                jax.ShapeDtypeStruct(values[i].shape, values[i].dtype)
                for i in active
            )
            return found if len(found) > 1 else found[0]

        def transpose(
            cotangents: Value, *operands: Value, **attributes: Value
        ) -> Value:
            known = operands[:count]
            given = [
                jnp.zeros(x.shape, x.dtype) if c is None else c
                for c, x in zip(
                    flatten(cotangents), (known[i] for i in active), strict=True
                )
            ]
            pushed = self.jvp(active, result_axes)
            return flatten(pushed(*known, *given, **attributes))

        return self._make(function, of_reference, shapes, transpose)

    def _reference_of(
        self,
        active: Sequence[int],
        values: Sequence[Value],
        attributes: Mapping[str, Value],
    ) -> tuple[Callable[..., Value], tuple[Value, ...]]:
        """The reference as a function of the active operands, and these."""
        reference = self._reference
        assert reference is not None

        def results(*operands: Value) -> Value:
            return floats(reference(*operands, **attributes))

        moving = tuple(values[i] for i in active)
        return of_active(results, values, active), moving

    def _make(
        self,
        function: Function,
        reference: Callable[..., Value],
        shapes: Callable[..., Value],
        transpose: Callable[..., Value],
    ) -> FfiOp[Result]:
        """The operation of a derivative, linear in all but the operands."""
        string = self._string
        named = _named(function, reference, string.decorated)
        own = named if self._reference is not None else None
        results = None
        if own is None:
            results = _named(function, shapes, string.decorated)
        made = Differentiable(string, function, own, results)
        if function.shared:
            made.over_rows = made._over_rows
        advanced = Advanced(
            part_of=string.body.name,
            shared_results=function.sums,
            differentiate=made,
        )
        spec = declare.declare(
            function.name,
            own,
            results,
            None,
            string.body.dtypes(function),
            {
                "axes": function.axes(),
                "attributes": string.attributes,
                "shared": [x.name for x in function.operands if x.is_shared],
                "handlers": self._handlers(function, named),
                "linear": function.names[len(self._function.operands) :],
                "transpose": transpose,
                "advanced": advanced,
            },
        )
        return ffi_op.of_spec(spec)

    def _over_rows(self, *operands: Value, **attributes: Value) -> Value:
        """The same where shared operands are those of each row.

        It is the operation where rows are split over devices, and where shared
        operands have batch axes.
        """
        function = self._function
        own = function.first_with_rows()
        rank, lead = 0, ()
        if own is not None:
            rank = operands[own].ndim - len(function.operands[own].letters)
            lead = operands[own].shape[:rank]
        full = [
            jnp.broadcast_to(x, (*lead, *x.shape)) if own.is_shared else x
            for own, x in zip(function.operands, operands, strict=True)
        ]
        op = self._remembered("rows", self._for_rows)
        found = flatten(op(*full, **attributes))
        added = tuple(
            jnp.sum(y, tuple(range(rank))) if own.is_sum else y
            for own, y in zip(function.outs, found, strict=True)
        )
        return added if len(added) > 1 else added[0]

    def _for_rows(self) -> FfiOp[Result]:
        function = self._function.without_shared()
        reference = self._reference

        def of_reference(*values: Value, **attributes: Value) -> Value:
            assert reference is not None
            call = functools.partial(reference, **attributes)
            for _ in range(values[0].ndim - len(function.operands[0].letters)):
                call = jax.vmap(call)
            return call(*values)

        string = self._string
        named = _named(function, of_reference, string.decorated)
        own = named if reference is not None else None
        spec = declare.declare(
            function.name,
            own,
            None if own is not None else self._results,
            None,
            string.body.dtypes(function),
            {
                "axes": function.axes(),
                "attributes": string.attributes,
                "handlers": {"cpu": self._kernel(function, named)},
                "advanced": Advanced(part_of=string.body.name),
            },
        )
        return ffi_op.of_spec(spec)

    def _handlers(
        self, function: Function, named: Callable[..., Value]
    ) -> dict[str, DeviceKernel]:
        string = self._string
        handlers: dict[str, DeviceKernel] = {
            "cpu": self._kernel(function, named)
        }
        if string.on_cuda is not None:
            handlers["cuda"] = string.on_cuda(function)
        return handlers

    def _kernel(
        self, function: Function, named: Callable[..., Value]
    ) -> Kernel:
        made = Kernel(self._string, function, named)
        self._kernels.append(made)
        return made


def _filled(
    made: Differentiable,
    cotangents: Value,
    operands: Sequence[Value],
    attributes: Mapping[str, Value],
) -> list[Value]:
    """Cotangents of all results, zeros for those that are not used."""
    given = flatten(cotangents)
    if all(c is not None for c in given):
        return list(given)
    types, lead = _types(made, operands, attributes)
    return [
        jnp.zeros((*lead, *t.shape), t.dtype) if c is None else c
        for c, t in zip(given, types, strict=True)
    ]


def _types(
    made: Differentiable,
    operands: Sequence[Value],
    attributes: Mapping[str, Value],
) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    """The types of the results, and batch axes that these types lack."""
    if made._reference is not None:
        call = functools.partial(made._reference, **attributes)
        return flatten(floats(jax.eval_shape(call, *operands))), ()
    assert made._results is not None
    function, rows, lead = made._function, [], ()
    for own, x in zip(function.operands, operands, strict=True):
        rank = x.ndim - len(own.letters)
        if not own.is_shared:
            lead = x.shape[:rank]
        rows.append(jax.ShapeDtypeStruct(x.shape[rank:], x.dtype))
    return flatten(floats(made._results(*rows, **attributes))), lead


def _named(
    function: Function,
    call: Callable[..., Value],
    decorated: Callable[..., object],
) -> Callable[..., Value]:
    """`call` with the parameters and the name of a derivative."""

    def named(*operands: Value, **attributes: Value) -> Value:
        return call(*operands, **attributes)

    keywords = [
        p
        for p in inspect.signature(decorated).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    ]
    operands = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for name in function.names
    ]
    named.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [*operands, *keywords]
    )
    suffix = function.name.partition(".")[2]
    own = getattr(decorated, "__qualname__", "<none>")
    named.__module__ = getattr(decorated, "__module__", "__main__")
    named.__name__ = function.name
    named.__qualname__ = f"{own}.{suffix}"
    named.__doc__ = f"A derivative of {own}."
    return named


def is_float(dtype: DType) -> bool:
    """Whether arrays of a dtype have derivatives."""
    return jnp.issubdtype(jnp.dtype(dtype), np.inexact)


def floats(results: Value) -> Value:
    """The results that have derivatives: an array or a tuple of them."""
    found = tuple(x for x in flatten(results) if is_float(x.dtype))
    return found if len(found) != 1 else found[0]
