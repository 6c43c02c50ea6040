"""`FfiOp`: a kernel as a JAX operation, from one declarative spec."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    Protocol,
    Self,
    cast,
)

import jax
from jax.interpreters import ad, batching, mlir
from jax.typing import ArrayLike

from xla_ffi_kit import _jax_hooks, report
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library.handler_library import Library
from xla_ffi_kit.op import (
    attribute_values,
    batch_axes,
    declare,
    python_signature,
    reference_switch,
)
from xla_ffi_kit.op import operands as call_operands
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import (
    Advanced,
    Arrays,
    AttributeType,
    Forward,
    Function,
    Handlers,
    OpSpec,
    Options,
    Result,
    ShapeFunction,
    Transpose,
)
from xla_ffi_kit.rules import abstract_eval, lowering
from xla_ffi_kit.rules import ad as derivative_rules
from xla_ffi_kit.rules import batching as batching_rule
from xla_ffi_kit.rules import solves as equations

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    # A shape function does not tell a type checker what a call returns.
    R = TypeVar("R", bound=Result, covariant=True, default=Any)
else:
    from typing import TypeVar

    R = TypeVar("R")

_operations: set[FfiOp[Result]] = set()


def operations() -> list[FfiOp[Result]]:
    """Every operation of this process, by name."""
    return sorted(_operations, key=lambda op: op.name)


def of_spec(spec: OpSpec) -> FfiOp[Result]:
    """An operation that `operations` does not list."""
    op: FfiOp[Result] = FfiOp.__new__(FfiOp)
    op._set(spec)
    return op


def _install_rules(spec: OpSpec) -> None:
    """Gives the primitive its rules, each a function of the spec.

    To install them again changes nothing.
    """
    primitive, rule = spec.primitive, functools.partial
    primitive.def_effectful_abstract_eval(
        rule(abstract_eval.abstract_eval, spec)
    )
    _jax_hooks.define_eager_call(primitive)
    ad.primitive_jvps[primitive] = rule(derivative_rules.jvp, spec)
    if spec.linear:
        ad.primitive_transposes[primitive] = rule(
            derivative_rules.transpose, spec
        )
    # JAX passes the axis that `vmap` maps, with its name, only to the rules in
    # this table, and not to those in `primitive_batchers`.
    batching.fancy_primitive_batchers[primitive] = rule(
        batching_rule.batch, spec
    )
    for lower, platform in lowering.rules(spec):
        mlir.register_lowering(primitive, lower, platform=platform)


class FfiOp(Generic[R]):
    """A JAX operation that runs a handler on the platforms that have one.

    The reference, a pure JAX function, defines what the operation computes.
    The shapes and dtypes of results, every derivative that the spec does not
    give, and the behavior on a platform without a handler are derived from it.
    If JAX cannot express the computation, for example that of an external
    library, pass a shape function instead, `results`. The operation then runs
    only on platforms with a handler, and has only the derivatives of the spec.

    An operation works under jit, vmap, jvp and grad of any order, scan, remat,
    shard_map, on a mesh with Auto or Explicit axes, and in exported programs.

    An operation is a JAX primitive, of which JAX keeps the rules as long as the
    process lives. Define it once, as a global, and not in a function that is
    called often. A copy of it, also a deep one, is the operation itself.

    What a handler's signature states is not declared again. For a handler with
    one, this is a whole spec:

      relu = FfiOp("lib.relu", reference, libraries="lib.so")

    An operand whose default is None may be left out of a call, and the handler
    gets one operand less. `*xs` in the reference stands for any number of them.
    Functions of the spec get None for an operand that is left out; gradients
    for it are ignored. Operands are meant by their names in the reference,
    results by those in the handler's signature or by their indices.

    Args:
      name: the operation's name, used in errors, jaxprs and the switch to the
        reference; also the default custom call target.
      reference: `reference(*operands, **attributes)` in JAX, returning an array
        or a tuple of arrays. Operands are positional, attributes keyword-only.
        It must treat every axis before the kernel axes as a batch axis, and
        its results begin with the same axes.
      results: replaces a reference: `results(*operands, **attributes)` is
        called with operands that have only a shape and a dtype, without batch
        axes. It returns a `jax.ShapeDtypeStruct`, or a tuple of them, for
        results without batch axes. The library must not write more than that:
        see `check_op`.
      axes: the trailing axes of each operand and result that the kernel needs
        whole, in the notation of `jnp.vectorize`: "(m,n),(n)->(m)". Axes of one
        name must have one size; a number is that size, and each "_" has one
        of its own. The axes before them are batch axes, and are the same for
        all operands except `shared` ones.
        Default: the signature's.
      kernel_axes: a number of axes for every operand, instead of `axes`: 1 for
        the last axis, 0 for an elementwise kernel.
      libraries: a handler library that has the targets, or its path, or several
        of them. For each platform, the first that exists and has the target is
        used. A library is loaded when the operation is defined, to
        read the signature; if it is missing or cannot be loaded, that is an
        error at the first use. Nothing is registered before. Without
        libraries, register the targets through `jax.ffi`.
      handlers: platform ("cpu", "cuda") -> custom call target, or a function
        with the reference's signature that calls other operations, or a mapping
        of dtypes to targets, in the notation of `dtypes`:
        `{"cpu": {"f32": "solve_f32", "f64": "solve_f64"}}`. Default:
        `name` on the platforms of `libraries`; without libraries, on the
        platforms for which `jax.ffi` has registered it when a program is
        lowered. If that is none, the reference runs with a warning; {} says
        that it is meant.
      attributes: name -> type, for attributes of which no signature tells it: a
        dtype as in `dtypes`, `str`, `(np.int64,)` for an array, or a mapping of
        these for a dictionary. Handlers get exactly the declared type. None:
        no handler gets it, as it only decides the types of results; it may be
        any hashable value. A call may leave out attributes that have defaults
        in the reference.
      dtypes: the dtypes that the handlers take, checked before anything is
        compiled; default: the signature's. Each entry is a dtype that all
        operands have, or one for each operand, ("f32", "s32") or "f32,s32". A
        dtype is a short name such as "bf16" or "i8" (its number counts bits), a
        name of NumPy such as "float32", or a type of NumPy or JAX.
      shared: the operands without batch axes, "w", "i j" or names; default: the
        signature's. Every row uses them, as it uses a layer's weight. The
        reference and every function of this spec get them without batch axes.
      aliases: operand -> the result that shares its buffer: {"x": "y"}. The
        call is in place if the operand is donated or dead; otherwise XLA copies
        the operand first.
      jvp: `jvp(primals, tangents, **attributes) -> (results, tangents)`, as in
        `jax.custom_jvp`. The returned tangents must be linear in the tangents,
        for example because they come from an operation with `linear` operands.
      vjp: `(fwd, bwd)`, as in `jax.custom_vjp`, for reverse mode only:
        `fwd(*operands, **attributes) -> (results, residuals)` and
        `bwd(residuals, cotangents, **attributes)`, which returns the cotangents
        of all operands, None for an operand without one.
      linear: the operands in which the results are linear, one name, or several
        in which they are linear together, as `a + x` is in ("a", "x").
      bilinear: two operands, in each of which the results are linear while the
        other is fixed, as `a * x` is in ("a", "x"). The derivative is
        `op(da, x) + op(a, dx)`, of any order.
      transpose: `transpose(cotangents, *operands, **attributes)` returns the
        cotangents of the linear or bilinear operands, None for one that is a
        value. It gets the types of those that are wanted instead of their
        values. Default: the transpose of the reference.
      solves: `solves(*results, *operands, **attributes)` in JAX is the residual
        of the equation that defines the results: an array, or several, that the
        results make zero. It is called for one row, without batch axes, and
        returns as many numbers as the results have that are floats. Derivatives
        of any order, of the reference too, follow by the implicit function
        theorem.
      advanced: `xla_ffi_kit.Advanced(...)`, the options that few operations
        need.
    """

    spec: OpSpec

    def __init__(
        self,
        name: str,
        reference: Callable[..., R] | None = None,
        *,
        results: ShapeFunction | None = None,
        axes: str | None = None,
        kernel_axes: int | None = None,
        libraries: Library | Sequence[Library] = (),
        handlers: Handlers | None = None,
        attributes: Mapping[str, AttributeType] | None = None,
        dtypes: Sequence[DType | Sequence[DType]] | None = None,
        shared: str | Sequence[str] | None = None,
        aliases: Mapping[str, str | int] | None = None,
        jvp: Callable[..., tuple[Result, Result]] | None = None,
        vjp: tuple[Forward, Transpose] | None = None,
        linear: str | Sequence[str] = (),
        bilinear: Sequence[str] = (),
        transpose: Transpose | None = None,
        solves: Function | None = None,
        advanced: Advanced | None = None,
    ) -> None:
        self._declare = functools.partial(
            declare.declare,
            name,
            cast(Function | None, reference),
            results,
            kernel_axes,
            dtypes,
            Options(
                axes=axes,
                libraries=libraries,
                handlers=handlers,
                attributes=attributes,
                shared=shared,
                aliases=aliases,
                jvp=jvp,
                vjp=vjp,
                linear=linear,
                bilinear=bilinear,
                transpose=transpose,
                solves=solves,
                advanced=advanced,
            ),
        )
        self._set(self._declare())
        _operations.add(self)
        reference_switch.add_operation(self.spec)

    def _set(self, spec: OpSpec) -> None:
        self.spec = spec
        self._lock = threading.Lock()
        self._names = {operand.parameter for operand in spec.operands}
        # A call with so many operands needs no choice among variants.
        self._count = -1 if spec.has_choices else len(spec.operands)
        # The operations for calls that leave operands out: by the positions of
        # the operands that are there, and by which of a call's are None.
        self._variants: dict[tuple[int, ...], FfiOp[R]] = {}
        self._chosen: dict[tuple[bool, ...], FfiOp[R]] = {}
        python_signature.resemble(self, spec)

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.spec.name

    @property
    def reference(self) -> Callable[..., R] | None:
        """The reference, if there is one."""
        return cast(Callable[..., R] | None, self.spec.reference)

    def __reduce__(self) -> str | tuple[Callable[..., object], tuple[str, str]]:
        return python_signature.reduce(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return f"FfiOp({self.name!r})"

    def explain(self) -> str:
        """How it runs on each platform, and where its derivatives come from.

        It compiles nothing. It may start JAX's backends. Raises
        HandlerLibraryError if the library cannot be used.
        """
        return report.report(self._resolved())

    def __call__(
        self,
        *operands: ArrayLike | None,
        implementation: Literal["reference", "handler"] | None = None,
        **attributes: object,
    ) -> R:
        """Runs the operation.

        Args:
          *operands: arrays, or anything that `jnp.asarray` takes, also by name,
            or None for one left out. A Python number has the operand's dtype.
          implementation: "reference" runs the reference. "handler" insists on
            the handler: where it would not run, the call raises when it is
            lowered. Derivatives run what their rules call. By default the
            platform and `use_reference` decide.
          **attributes: the attributes, which are static values.

        Returns:
          The results of the reference: an array or a tuple of arrays.

        Raises:
          TypeError: the number of operands is wrong, or the name or type of an
            attribute is.
          ValueError: a rank is wrong, leading axes differ, an attribute is out
            of range, or a kernel axis is sharded.
          HandlerLibraryError: the handler library cannot be used.
          NotImplementedError: the call insists on a handler that does not run,
            or there is neither a handler nor a reference.
        """
        op, present = self, cast(Sequence[Any], operands)
        if len(operands) != self._count or (
            attributes and not self._names.isdisjoint(attributes)
        ):
            op, present = self._choose(operands, attributes)
        values = op._bind_attributes(attributes)
        spec = op.spec
        arrays = call_operands.arrays(spec, present)
        if implementation is None:
            by_reference = reference_switch.runs_reference(spec)
        else:
            by_reference = op._is_reference(implementation)
            values = values if by_reference else values.insisting
        if by_reference:
            batch_axes.check_none(spec, arrays)
            arrays = call_operands.in_own_dtypes(spec, arrays)
            results = abstract_eval.results(spec, arrays, values)
            return cast(R, results.pack(op._run_reference(values, *arrays)))
        if _jax_hooks.is_eager():
            return cast(R, op._compiled(values)(*arrays))
        return cast(R, op._bind(arrays, values))

    def _choose(
        self, operands: Sequence[Any], attributes: dict[str, Any]
    ) -> tuple[FfiOp[R], Sequence[Any]]:
        """The operation for a call's operands, and those that are there."""
        key = tuple([x is None for x in operands])
        by_name = not self._names.isdisjoint(attributes)
        variant = None if by_name else self._chosen.get(key)
        if variant is not None:
            return variant, [x for x in operands if x is not None]
        values = python_signature.all_operands(self.spec, operands, attributes)
        op = self.given(*values)
        present = [values[operand.position] for operand in op.spec.operands]
        if not by_name and all(x is not None for x in present):
            self._chosen[key] = op
        return op, present

    def given(self, *operands: object) -> FfiOp[R]:
        """The operation for calls with these operands, None for those left out.

        `norm(x, None, y)` is `norm.given(x, None, y)(x, y)`: a primitive of its
        own, which has only these operands. TypeError if their number is wrong.
        """
        spec = self.spec
        operands = (*python_signature.all_operands(spec, operands, {}),)
        last = len(spec.operands) - 1
        positions = tuple(
            i
            for i, operand in enumerate(operands)
            if operand is not None
            or not spec.operands[min(i, last)].is_optional
        )
        if not spec.has_choices or (
            len(positions) == last + 1 and not spec.operands[last].is_repeated
        ):
            return self
        if positions not in self._variants:
            variant = of_spec(self._resolved().with_positions(positions))
            self._variants.setdefault(positions, cast(FfiOp[R], variant))
        return self._variants[positions]

    def _resolved(self) -> OpSpec:
        """The spec, with all that the library tells."""
        with self._lock:  # A spec has one primitive, which two threads share.
            if self.spec.problem:
                spec = self._declare()
                if spec.problem:
                    raise HandlerLibraryError(spec.problem)
                self.spec = spec
            return self.spec

    @functools.cached_property
    def _bind_attributes(self) -> attribute_values.Binder:
        """Checks attributes. Every call begins with it, so it comes first."""
        spec = self._resolved()
        _install_rules(spec)
        return attribute_values.Binder(
            *(spec.name, spec.attributes, python_signature.defaults(spec)),
            python_signature.without_value(spec),
        )

    @functools.cached_property
    def _compiled(self) -> Callable[[AttributeValues], Callable[..., object]]:
        # An eager call runs a compiled program of its own. By the primitive, it
        # would take twice as long.
        return functools.lru_cache(maxsize=1024)(self._compile)

    @functools.cached_property
    def _run_reference(self) -> Callable[..., Arrays]:
        spec = self.spec
        assert spec.reference is not None
        run: Callable[..., Arrays] = functools.partial(
            batch_axes.in_jax, spec, spec.reference
        )
        if spec.solves is not None:
            run = equations.of_reference(spec)
        return cast(Callable[..., Arrays], jax.jit(run, static_argnums=0))

    def _is_reference(self, implementation: str) -> bool:
        """Whether a call asks for the reference, or else for the handler."""
        expected = "None, 'reference' or 'handler'"
        if implementation == "reference" and self.spec.reference is None:
            expected = (
                "None or 'handler', as the operation has a shape function "
                "instead of a reference"
            )
        elif implementation in ("reference", "handler"):
            return implementation == "reference"
        got = repr(implementation)
        raise ValueError(self.spec.error("implementation", expected, got))

    def _bind(
        self, operands: Sequence[jax.Array], attributes: AttributeValues
    ) -> Result:
        spec = self.spec
        batch_axes.check_none(spec, operands)
        operands = call_operands.in_own_dtypes(spec, operands)
        results = _jax_hooks.bind(spec.primitive, operands, attributes)
        return abstract_eval.results(spec, operands, attributes).pack(results)

    def _compile(self, attributes: AttributeValues) -> Callable[..., object]:
        """The operation as a compiled program of its own, for eager calls."""

        def run(*operands: jax.Array) -> Result:
            return self._bind(operands, attributes)

        run.__name__ = self.spec.name
        return jax.jit(run)


class Decorator(Protocol):
    """A decorator that makes an operation from its reference."""

    def __call__(self, reference: Callable[..., R], /) -> FfiOp[R]:
        """Returns the operation of a reference."""
