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
from typing import Any, TypeAlias, Unpack

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import ffi_op
from xla_ffi_kit._check import Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op import declare
from xla_ffi_kit.op.spec import (
    Advanced,
    DeviceKernel,
    OpSpec,
    Options,
    Result,
    flatten,
    of_active,
    targets_of,
)
from xla_ffi_kit.strings.derive import jacobian
from xla_ffi_kit.strings.derive.function import DifferentiableCode
from xla_ffi_kit.strings.derive.kernel import DerivativeKernel, String

# Arrays, tracers, types and what authors return of them: JAX has no one type.
Value: TypeAlias = Any


class Differentiable:
    """A function of a string, and the operations that are its derivatives."""

    def __init__(
        self,
        string: String,
        function: DifferentiableCode,
        reference: Callable[..., Value] | None,
        results: Callable[..., Value] | None,
    ) -> None:
        self._string = string
        self._function = function
        self._reference = reference
        self._results = results
        self._made: dict[object, FfiOp[Result]] = {}
        self._kernels: list[DerivativeKernel] = []
        # Of those with a Jacobian, what makes them where rows have copies.
        self._jacobians: list[Differentiable] = []
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

    def jacobian(
        self,
        spec: OpSpec,
        active: Sequence[int],
        operands: Sequence[Typed],
        results: Sequence[Typed],
    ) -> Callable[..., tuple[Value, Value]] | None:
        """`f(*operands, *tangents)`: results and tangents, by a Jacobian."""
        in_lanes = self._string.body.lanes
        count = jacobian.slots(
            self._function, active, operands, results, in_lanes
        )
        if count is None:
            return None
        axes = [len(y.shape) for y in results]
        call = self._remembered(
            ("jacobian", (*active,), (*axes,), count),
            lambda: self._jacobian(spec, tuple(active), axes, count),
        )

        def linearized(
            *values: Value, **attributes: Value
        ) -> tuple[Value, Value]:
            primals, moving = values[: len(operands)], values[len(operands) :]
            made = flatten(call(*primals, **attributes))
            outs, blocks = made[: len(results)], made[len(results) :]
            return outs, jacobian.tangents(
                self._function, active, moving, outs, blocks
            )

        return linearized

    def targets(self) -> list[str]:
        """The targets of those compiled so far, and of their derivatives."""
        targets: list[str] = []
        for op in list(self._made.values()):
            for handler in op.spec.handlers.values():
                if (
                    isinstance(handler, DerivativeKernel)
                    and not handler.is_ready
                ):
                    continue
                targets += targets_of(handler)
            derivatives = op.spec.advanced.differentiate
            targets += [] if derivatives is None else derivatives.targets()
        return targets + [t for d in self._jacobians for t in d.targets()]

    def report(self) -> str:
        """Where the derivatives come from, and those made so far."""
        way = "all slopes of an element in one pass"
        if self._function.form == "Row":
            way = "forward mode, and reverse mode by a tape"
        on = "cpu" if self._string.on_cuda is None else "cpu and cuda"
        others = "the reference's" if self._reference is not None else "none"
        names = ", ".join(kernel.how() for kernel in self._kernels)
        return (
            f"the string's own on {on}, {way}; elsewhere {others}; made so "
            f"far: {names or 'none'}"
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
            return floats(self._results(*values[:count], **attributes))

        def transpose(
            cotangents: Value, *operands: Value, **attributes: Value
        ) -> Value:
            point = operands[:count]
            filled = _filled(self, cotangents, point, attributes)
            pulled = self.vjp(active, result_axes)
            return flatten(pulled(*point, *filled, **attributes))

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
            seeds = values[count:]
            slopes = pull(seeds if isinstance(outs, tuple) else seeds[0])
            return slopes if len(slopes) > 1 else slopes[0]

        def shapes(*values: Value, **attributes: Value) -> Value:
            types = tuple(
                jax.ShapeDtypeStruct(values[i].shape, values[i].dtype)
                for i in active
            )
            return types if len(types) > 1 else types[0]

        def transpose(
            cotangents: Value, *operands: Value, **attributes: Value
        ) -> Value:
            point = operands[:count]
            tangents = [
                jnp.zeros(x.shape, x.dtype) if c is None else c
                for c, x in zip(
                    flatten(cotangents), (point[i] for i in active), strict=True
                )
            ]
            pushed = self.jvp(active, result_axes)
            return flatten(pushed(*point, *tangents, **attributes))

        return self._make(function, of_reference, shapes, transpose)

    def _jacobian(
        self,
        spec: OpSpec,
        active: tuple[int, ...],
        result_axes: Sequence[int],
        count: int,
    ) -> FfiOp[Result]:
        """Its derivatives are those of its reference: of the operation's."""
        code, string = self._function, self._string
        function = code.jacobian(active, result_axes, count)
        way = self.jvp if count else self.vjp
        slopes = way(active, result_axes)
        op = ffi_op.of_spec(spec)
        call = jacobian.reference(op, code, active, slopes, count)
        named = _named(function, call, string.decorated)
        over_rows = None
        if function.shared:
            copies = Differentiable(string, function, named, None)
            self._jacobians.append(copies)
            over_rows = copies._over_rows
        return self._operation(
            function,
            named,
            None,
            handlers={"cpu": self._kernel(function, named)},
            advanced=Advanced(part_of=string.body.name, partitioned=over_rows),
        )

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
        function: DifferentiableCode,
        reference: Callable[..., Value],
        shapes: Callable[..., Value],
        transpose: Callable[..., Value],
    ) -> FfiOp[Result]:
        """The operation of a derivative, linear in all but the operands."""
        string = self._string
        named = _named(function, reference, string.decorated)
        call = named if self._reference is not None else None
        results = None
        if call is None:
            results = _named(function, shapes, string.decorated)
        differentiable = Differentiable(string, function, call, results)
        if function.shared:
            differentiable.over_rows = differentiable._over_rows
        advanced = Advanced(
            part_of=string.body.name,
            shared_results=function.sums,
            differentiate=differentiable,
        )
        return self._operation(
            function,
            call,
            results,
            handlers=self._handlers(function, named),
            linear=function.names[len(self._function.operands) :],
            transpose=transpose,
            advanced=advanced,
        )

    def _operation(
        self,
        function: DifferentiableCode,
        reference: Callable[..., Value] | None,
        results: Callable[..., Value] | None,
        **options: Unpack[Options],
    ) -> FfiOp[Result]:
        """The operation of what is derived from the string."""
        of_function: Options = {
            "axes": function.axes(),
            "attributes": self._string.attributes,
            "shared": [x.name for x in function.operands if x.is_shared],
        }
        dtypes = self._string.body.dtypes(function)
        return ffi_op.of_spec(
            declare.declare(
                function.name,
                reference,
                results,
                None,
                dtypes,
                options | of_function,
            )
        )

    def _over_rows(self, *operands: Value, **attributes: Value) -> Value:
        """The same where shared operands are those of each row.

        It is the operation where rows are split over devices, and where shared
        operands have batch axes.
        """
        function = self._function
        first = function.first_with_rows()
        rank, lead = 0, ()
        if first is not None:
            rank = operands[first].ndim - len(function.operands[first].letters)
            lead = operands[first].shape[:rank]
        full = [
            jnp.broadcast_to(x, (*lead, *x.shape)) if operand.is_shared else x
            for operand, x in zip(function.operands, operands, strict=True)
        ]
        op = self._remembered("rows", self._for_rows)
        results = flatten(op(*full, **attributes))
        added = tuple(
            jnp.sum(y, tuple(range(rank))) if out.is_sum else y
            for out, y in zip(function.outs, results, strict=True)
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
        rows_reference = named if reference is not None else None
        spec = declare.declare(
            function.name,
            rows_reference,
            None if rows_reference is not None else self._results,
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
        self, function: DifferentiableCode, named: Callable[..., Value]
    ) -> dict[str, DeviceKernel]:
        string = self._string
        handlers: dict[str, DeviceKernel] = {
            "cpu": self._kernel(function, named)
        }
        if string.on_cuda is not None:
            handlers["cuda"] = string.on_cuda(function)
        return handlers

    def _kernel(
        self, function: DifferentiableCode, named: Callable[..., Value]
    ) -> DerivativeKernel:
        kernel = DerivativeKernel(self._string, function, named)
        self._kernels.append(kernel)
        return kernel


def _filled(
    differentiable: Differentiable,
    cotangents: Value,
    operands: Sequence[Value],
    attributes: Mapping[str, Value],
) -> list[Value]:
    """Cotangents of all results, zeros for those that are not used."""
    seeds = flatten(cotangents)
    if all(c is not None for c in seeds):
        return list(seeds)
    types, lead = _types(differentiable, operands, attributes)
    return [
        jnp.zeros((*lead, *t.shape), t.dtype) if c is None else c
        for c, t in zip(seeds, types, strict=True)
    ]


def _types(
    differentiable: Differentiable,
    operands: Sequence[Value],
    attributes: Mapping[str, Value],
) -> tuple[tuple[Value, ...], tuple[int, ...]]:
    """The types of the results, and batch axes that these types lack."""
    if differentiable._reference is not None:
        call = functools.partial(differentiable._reference, **attributes)
        return flatten(floats(jax.eval_shape(call, *operands))), ()
    assert differentiable._results is not None
    function, rows, lead = differentiable._function, [], ()
    for operand, x in zip(function.operands, operands, strict=True):
        rank = x.ndim - len(operand.letters)
        if not operand.is_shared:
            lead = x.shape[:rank]
        rows.append(jax.ShapeDtypeStruct(x.shape[rank:], x.dtype))
    return flatten(floats(differentiable._results(*rows, **attributes))), lead


def _named(
    function: DifferentiableCode,
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
    qualname = getattr(decorated, "__qualname__", "<none>")
    named.__module__ = getattr(decorated, "__module__", "__main__")
    named.__name__ = function.name
    named.__qualname__ = f"{qualname}.{suffix}"
    named.__doc__ = f"A derivative of {qualname}."
    return named


def is_float(dtype: DType) -> bool:
    """Whether arrays of a dtype have derivatives."""
    return jnp.issubdtype(jnp.dtype(dtype), np.inexact)


def floats(results: Value) -> Value:
    """The results that have derivatives: an array or a tuple of them."""
    numbers = tuple(x for x in flatten(results) if is_float(x.dtype))
    return numbers if len(numbers) != 1 else numbers[0]
