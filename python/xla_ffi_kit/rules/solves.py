"""Derivatives of an operation by the equation that its results solve.

`solves=` of an `FfiOp` is a residual F(x, p) in JAX, of results x and operands
p, that the results make zero. By the implicit function theorem their tangents
dx solve the linear system F_x dx = -F_p dp. JAX differentiates this in turn, as
x is the operation's own result, so there are derivatives of any order.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed, is_inexact
from xla_ffi_kit.op import batch_axes, rule_checks
from xla_ffi_kit.op import operands as call_operands
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import Arrays, OpSpec, flatten
from xla_ffi_kit.rules import partitioning

_T = TypeVar("_T")
Values: TypeAlias = Sequence[jax.Array]
_Map: TypeAlias = Callable[[jax.Array], jax.Array]
# Systems of more unknowns are solved without a matrix.
_LARGEST_MATRIX = 512
_RESTART = 50  # GMRES keeps so many vectors


class Equation:
    """The equation of one row: its unknowns are one vector of real numbers.

    Attributes:
      unknowns: the results that are floats. A complex number is two unknowns,
        so that the equation need not be holomorphic.
    """

    def __init__(
        self,
        spec: OpSpec,
        attributes: AttributeValues,
        results: Values,
        operands: Values,
    ) -> None:
        self._spec = spec
        self._attributes = attributes.for_reference
        self._results = results
        self._operands = operands
        floats = [y for y in results if is_inexact(y)]
        self._types = [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in floats]
        real = [jnp.finfo(y.dtype).dtype for y in floats]
        self._dtype = functools.reduce(jnp.promote_types, [*real, np.float32])
        self.unknowns = self._ravel(floats)
        # The types of the residual, which `residual` finds out.
        self._parts: Sequence[Typed] = ()

    def residual(
        self, unknowns: jax.Array, moved: Mapping[int, jax.Array]
    ) -> jax.Array:
        """The residual, of other values of some operands."""
        floats = iter(_restore(unknowns, self._types))
        results = [next(floats) if is_inexact(y) else y for y in self._results]
        operands = [moved.get(i, x) for i, x in enumerate(self._operands)]
        spec = self._spec
        assert spec.solves is not None
        with self._called("solves"):
            returned = spec.solves(
                *results, *spec.fill(operands), **self._attributes
            )
            parts = [jnp.asarray(y) for y in jax.tree.leaves(returned)]
        if not parts or not all(map(is_inexact, parts)):
            # The slopes of integers would be 0.
            got = ", ".join(map(call_operands.type_name, parts)) or returned
            raise TypeError(spec.error("solves", "a residual of floats", got))
        self._parts = [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in parts]
        residual = self._ravel(parts)
        if residual.shape != unknowns.shape:
            expected = (
                f"a residual of {unknowns.size} real numbers for a row, as "
                "many as its results have"
            )
            raise ValueError(spec.error("solves", expected, residual.size))
        return residual

    def tangents(self, moving: Mapping[int, jax.Array]) -> Arrays:
        """The tangents of the unknowns, given those of operands."""
        here = {i: self._operands[i] for i in moving}
        _, change = jax.jvp(
            functools.partial(self.residual, self.unknowns),
            (here,),
            (dict(moving),),
        )
        _, matvec = jax.linearize(
            lambda unknowns: self.residual(unknowns, here), self.unknowns
        )
        # It is differentiated as A^-1 b is, whatever the solver does.
        change, *_ = _jax_hooks.match_manual_axes([-change, self.unknowns])
        solve = self._solver(matvec)
        solution = jax.lax.custom_linear_solve(
            matvec,
            change,
            functools.partial(solve, False),
            functools.partial(solve, True),
        )
        return tuple(_restore(solution, self._types))

    def _solver(
        self, matvec: _Map
    ) -> Callable[[bool, _Map, jax.Array], jax.Array]:
        """Solves a system, or its transpose, given the product with it."""
        if self._spec.advanced.linear_solve is not None:
            return self._by_author
        size = self.unknowns.size
        if isinstance(size, int) and size > _LARGEST_MATRIX:
            return _by_products
        unit = jnp.eye(size, dtype=self._dtype)
        unit, _ = _jax_hooks.match_manual_axes([unit, self.unknowns])
        matrix = jax.lax.stop_gradient(jax.vmap(matvec, 0, 1)(unit))
        if size == 1:
            return lambda _, __, b: b / matrix[0]
        # One factorization for the system and its transpose.
        factors = jax.scipy.linalg.lu_factor(matrix)
        return lambda transposed, _, b: jax.scipy.linalg.lu_solve(
            factors, b, trans=int(transposed)
        )

    def _by_author(
        self, transposed: bool, product: _Map, b: jax.Array
    ) -> jax.Array:
        spec = self._spec
        solve = spec.advanced.linear_solve
        assert solve is not None
        # Products of the transposed system are of the unknowns' types.
        ways = self._types, self._parts
        into, out_of = ways if transposed else reversed(ways)

        def packed(flat: jax.Array, types: Sequence[Typed]) -> Any:
            parts = tuple(_restore(flat, types))
            return parts if len(parts) > 1 else parts[0]

        with self._called("linear_solve"):
            returned = solve(
                lambda v: packed(product(self._ravel(flatten(v))), into),
                packed(b, into),
                transposed,
                *self._results,
                *spec.fill(self._operands),
                **self._attributes,
            )
        what = "linear_solve: solution"
        solution = rule_checks.arrays(spec, what, returned, len(out_of))
        for i, (got, want) in enumerate(zip(solution, out_of, strict=True)):
            rule_checks.like(spec, what, i, got, want)
        return self._ravel(solution)

    @contextlib.contextmanager
    def _called(self, what: str) -> Iterator[None]:
        """Notes of an error in an author's function what it was called with."""
        try:
            yield
        except Exception as error:
            spec = self._spec
            types = ", ".join(map(call_operands.type_name, self._results))
            operand_types = call_operands.describe(spec, self._operands)
            error.add_note(
                f"{spec.name}: {what}: called for one row, with results "
                f"{types} and operands {operand_types}"
            )
            raise

    def _ravel(self, arrays: Values) -> jax.Array:
        """Arrays as one vector of real numbers."""
        parts = []
        for x in arrays:
            flat = jnp.ravel(x)
            is_pair = jnp.iscomplexobj(flat)
            parts += [jnp.real(flat), jnp.imag(flat)] if is_pair else [flat]
        return jnp.concatenate(
            [jax.lax.convert_element_type(part, self._dtype) for part in parts]
        )


def _restore(flat: jax.Array, types: Sequence[Typed]) -> list[jax.Array]:
    """The inverse of `_ravel`."""
    arrays, at = [], 0
    for type_ in types:
        size = math.prod(type_.shape)
        part, at = flat[at : at + size], at + size
        if jnp.issubdtype(type_.dtype, np.complexfloating):
            part, at = jax.lax.complex(part, flat[at : at + size]), at + size
        part = jax.lax.convert_element_type(part, type_.dtype)
        arrays.append(part.reshape(type_.shape))
    return arrays


def _by_products(_: bool, product: _Map, b: jax.Array) -> jax.Array:
    """Solves a system by GMRES; NaN where it does not converge."""
    eps = float(jnp.finfo(b.dtype).eps)
    restart = min(_RESTART, b.size)
    solution, _ = jax.scipy.sparse.linalg.gmres(
        product,
        b,
        tol=eps**0.75,
        restart=restart,
        maxiter=max(10, 4 * b.size // restart),
    )
    error = jnp.linalg.norm(product(solution) - b)
    is_solved = error <= eps**0.5 * jnp.linalg.norm(b)
    return jnp.where(is_solved, solution, jnp.nan)


def jvp(
    spec: OpSpec,
    primals: Values,
    active: Mapping[int, jax.Array],
    attributes: AttributeValues,
) -> tuple[Values, list[jax.Array | None]]:
    """The results, and the tangents of those that are floats."""
    outs = _jax_hooks.bind(spec.primitive, primals, attributes)
    return outs, _tangents(spec, outs, primals, active, attributes)


def of_reference(spec: OpSpec) -> Callable[..., Arrays]:
    """The reference of an operation, with its derivatives by the equation.

    Iterations that JAX cannot differentiate backwards may be a reference then.
    """
    reference = spec.reference
    assert reference is not None

    def call(attributes: AttributeValues, *operands: jax.Array) -> Arrays:
        run = jax.custom_jvp(
            functools.partial(batch_axes.in_jax, spec, reference, attributes)
        )

        @run.defjvp
        def rule(primals: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
            outs = run(*primals)
            active = {
                i: t
                for i, (x, t) in enumerate(zip(primals, tangents, strict=True))
                if is_inexact(x)
            }
            slopes = _tangents(spec, outs, primals, active, attributes)
            none = jax.dtypes.float0
            return outs, tuple(
                cast(jax.Array, np.zeros(y.shape, none)) if t is None else t
                for y, t in zip(outs, slopes, strict=True)
            )

        return run(*operands)

    return call


def _tangents(
    spec: OpSpec,
    outs: Values,
    primals: Values,
    active: Mapping[int, jax.Array],
    attributes: AttributeValues,
) -> list[jax.Array | None]:
    """The tangents of results, None of one that is no float."""
    floats = [is_inexact(y) for y in outs]
    if not any(y.size for y in outs if is_inexact(y)):
        return [jnp.zeros_like(y) if is_inexact(y) else None for y in outs]
    moving = dict(active)
    slopes = iter(_compiled(spec, attributes)(outs, primals, moving))
    return [next(slopes) if is_float else None for is_float in floats]


@functools.lru_cache(maxsize=1024)
def _compiled(
    spec: OpSpec, attributes: AttributeValues
) -> Callable[[Values, Values, Mapping[int, jax.Array]], Arrays]:
    """The tangents of the unknowns of all rows, for eager calls too."""

    def of_row(
        outs: Arrays, operands: Arrays, moving: Mapping[int, jax.Array]
    ) -> Arrays:
        return Equation(spec, attributes, outs, operands).tangents(moving)

    def tangents(
        outs: Values, primals: Values, moving: Mapping[int, jax.Array]
    ) -> Arrays:
        return over_rows(spec, of_row, outs, primals, moving)

    return cast(Callable[..., Arrays], jax.jit(tangents))


def over_rows(
    spec: OpSpec,
    function: Callable[[Arrays, Arrays, dict[int, jax.Array]], _T],
    outs: Values,
    operands: Values,
    moving: Mapping[int, jax.Array],
) -> _T:
    """`function` of each row of results, operands and tangents of operands."""
    lead = batch_axes.leading_shape(spec, operands)
    count = len(lead)
    operands = partitioning.alike(spec, operands, lead)
    moving = {
        i: partitioning.placed_like(t, jax.typeof(operands[i]))
        for i, t in moving.items()
    }
    absent = batch_axes.absent_axes(spec, operands, count)

    def whole(i: int, x: jax.Array) -> jax.Array:
        return x if i in spec.shared else x.squeeze(absent[i])

    for axes in batch_axes.mapped_axes(spec, operands, count):
        function = jax.vmap(function, (0, axes, {i: axes[i] for i in moving}))
    return function(
        tuple(outs),
        tuple(whole(i, x) for i, x in enumerate(operands)),
        {i: whole(i, t) for i, t in moving.items()},
    )
