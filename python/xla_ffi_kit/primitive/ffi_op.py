"""`FfiOp`: a kernel as a JAX operation, from one declarative spec."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import (
    Generic,
    Literal,
    Protocol,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

import jax
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.primitive import (
    attribute_values,
    lowering,
    operand_checks,
    python_signature,
    reference_switch,
    shared_operands,
    signature_check,
)
from xla_ffi_kit.primitive import spec as specs
from xla_ffi_kit.primitive.abstract_eval import ResultTypes
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.batching import Batching
from xla_ffi_kit.primitive.derivatives import Derivatives
from xla_ffi_kit.primitive.spec import Arrays, OpSpec, Options, Result

R = TypeVar("R", bound=Result, covariant=True)

_operations: set[OpSpec] = set()


def operations() -> list[OpSpec]:
    """Every operation of this process, by name."""
    return sorted(_operations, key=lambda op: op.name)


def forget(op: OpSpec) -> None:
    """Leaves an operation out of that list."""
    _operations.discard(op)


class FfiOp(OpSpec, Generic[R]):
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
      kernel_axes: the number of trailing axes of each operand that the kernel
        needs whole; one number if it is the same for all. The axes before them
        are batch axes, and are the same for all operands except `shared` ones.
      handlers: platform ("cpu", "cuda") -> custom call target, or a function
        with the reference's signature that calls other operations. Default:
        `name` on the platforms of `libraries`; without libraries, on the
        platforms for which `jax.ffi` has registered it when a program is
        lowered. If that is none, the reference runs with a warning; {} says
        that it is meant.
      libraries: a handler library that has the targets, or its path, or several
        of them. For each platform, the first that exists and has the target is
        used. A library for CPUs is loaded when the operation is defined, to
        compare their signatures; if it is missing or cannot be loaded, that is
        an error at the first use. Nothing is registered before. Without
        libraries, register the targets through `jax.ffi`.
      attributes: name -> type: a dtype as in `dtypes`, `str`, `(np.int64,)`
        for an array, or a mapping of these for a dictionary. Handlers get
        exactly the declared type. A call may leave out attributes that have
        defaults in the reference's signature.
      shape_attributes: `shape_attributes(*operands, **attributes)` returns a
        mapping of additional attributes of the handlers. It gets the shapes
        with which the handlers are called: with batch axes and, on a mesh,
        those of one device. Values are NumPy scalars or arrays of exactly the
        type that the handler takes, strings, Python's bool, int (int64) and
        float (float64), or mappings of these.
      dtypes: the dtypes that the handlers take, checked before anything is
        compiled. Each entry is a dtype that all operands have, or one for each
        operand, ("f32", "s32") or "f32,s32". A dtype is a short name such as
        "bf16" or "i8" (its number counts bits), a name of NumPy such as
        "float32", or a type of NumPy or JAX.
      check: `check(*operands, **attributes)` is called with operands that have
        only a shape and a dtype. It raises TypeError or ValueError if the
        handlers cannot take them. It runs once for each signature.
      jvp: `jvp(primals, tangents, **attributes) -> (results, tangents)`, as in
        `jax.custom_jvp`. The returned tangents must be linear in the tangents,
        for example because they come from an operation with `linear` operands.
      vjp: `(fwd, bwd)`, as in `jax.custom_vjp`, for reverse mode only:
        `fwd(*operands, **attributes) -> (results, residuals)` and
        `bwd(residuals, cotangents, **attributes)`, which returns the cotangents
        of all operands, None for an operand without one.
      linear: the operands in which the results are jointly linear.
      transpose: `transpose(cotangents, *operands, **attributes)` returns the
        cotangents of the linear operands. It gets the types of these operands
        instead of their values. Default: the transpose of the reference.
      shared: the operands without batch axes. Every row uses them, as it uses a
        layer's weight. The reference and every function of this spec get them
        without batch axes.
      shared_results: the results without batch axes. They are sums over the
        rows, such as the gradient of a weight. Wherever XLA could split the
        rows over devices, `partitioned` runs.
      batches_shared: whether the handler takes shared operands, and returns
        shared results, with the first batch axes of the call, which vmap adds.
        If not, such calls run `partitioned`.
      partitioned: a function with the reference's signature that calls other
        operations. Default: the reference.
      input_output_aliases: operand index -> index of the result that shares its
        buffer. The call is in place if the operand is donated or dead;
        otherwise XLA copies the operand first.
      input_layouts: for each operand None, if its kernel axes are row-major, or
        their order, major to minor: (1, 0) is a column-major matrix.
      output_layouts: the same for the results.
      has_side_effect: whether the call must be neither removed nor repeated.
        Two such calls may run in another order than written.
      vmap_method: what vmap does with operands that it does not map:
        "broadcast_all" repeats them; "expand_dims" gives them a leading axis of
        size one, which the handler must broadcast; "sequential" calls a handler
        that cannot batch once for each element. Where the reference has a
        collective over an axis that vmap names, the reference runs.
      sharded_kernel_axes: an operand whose kernel axes are sharded over an
        Explicit mesh is refused ("error") or gathered ("gather"). On an Auto
        mesh XLA gathers in either case.
      part_of: the name of a public function that runs this operation, or
        several names. `use_reference` of such a name switches this operation
        off, too. Use it for the variants and derivatives of a function.
      workspace: platform -> `bytes(*operands, **attributes)`, called with
        operands that have only a shape and a dtype. Handlers of that platform
        get an additional last result, `uint8[bytes]`, which callers do not see.
        Unlike the FFI's scratch memory, it still exists when a CUDA graph runs,
        so the handler can be captured. Wherever XLA could split the rows over
        devices, `partitioned` runs.
    """

    @overload
    def __init__(
        self,
        name: str,
        reference: Callable[..., R],
        *,
        kernel_axes: int | Sequence[int],
        dtypes: Sequence[DType | Sequence[DType]] | None = None,
        **options: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: FfiOp[jax.Array],
        name: str,
        *,
        results: Callable[..., Typed],
        kernel_axes: int | Sequence[int],
        dtypes: Sequence[DType | Sequence[DType]] | None = None,
        **options: Unpack[Options],
    ) -> None: ...

    @overload
    def __init__(
        self: FfiOp[Arrays],
        name: str,
        *,
        results: Callable[..., tuple[Typed, ...]],
        kernel_axes: int | Sequence[int],
        dtypes: Sequence[DType | Sequence[DType]] | None = None,
        **options: Unpack[Options],
    ) -> None: ...

    def __init__(
        self,
        name: str,
        reference: Callable[..., R] | None = None,
        *,
        results: Callable[..., specs.ResultTypes] | None = None,
        kernel_axes: int | Sequence[int],
        dtypes: Sequence[DType | Sequence[DType]] | None = None,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(name, reference, results, kernel_axes, options)
        if dtypes is not None:
            self.check = operand_checks.dtype_check(
                name, self.operand_names, dtypes, self.check
            )
        python_signature.resemble(self)
        self._bind_attributes = attribute_values.Binder(
            name, self.attributes, python_signature.defaults(self.signature)
        )
        self._types = ResultTypes(self)
        signature_check.check(self, dtypes)
        self.primitive = _jax_hooks.Primitive(name)
        self.primitive.multiple_results = True
        self.primitive.def_effectful_abstract_eval(self._types.abstract_eval)
        _jax_hooks.define_eager_call(self.primitive)
        Derivatives(self, self.primitive, self._types).install()
        Batching(self, self.primitive, self._types).install()
        lowering.install(self, self.primitive)
        # Eager calls go past the primitive, which would take as long again.
        self._compiled = functools.lru_cache(maxsize=1024)(self._compile)
        self._run_reference = jax.jit(
            functools.partial(shared_operands.in_jax, self, self.reference),
            static_argnums=0,
        )
        _operations.add(self)
        reference_switch.add_operation(self)

    def __reduce__(self) -> str | tuple[Callable[..., object], tuple[str, str]]:
        return python_signature.reduce(self)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __repr__(self) -> str:
        return f"FfiOp({self.name!r})"

    def __call__(
        self,
        *operands: ArrayLike,
        implementation: Literal["reference", "handler"] | None = None,
        **attributes: object,
    ) -> R:
        """Runs the operation.

        Args:
          *operands: arrays, or anything that `jnp.asarray` takes; you may also
            pass them by name.
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
        if len(operands) != len(self.operand_names):
            operands = python_signature.operands_by_name(
                self, operands, attributes
            )
        arrays = [
            _check.array(self.name, name, x)
            for name, x in zip(self.operand_names, operands, strict=True)
        ]
        values = self._bind_attributes(attributes)
        if implementation is None:
            by_reference = reference_switch.runs_reference(self)
        else:
            by_reference = self._is_reference(implementation)
            values = values if by_reference else values.insisting
        if by_reference:
            operand_checks.leading_shape(self, arrays)
            found = self._types(arrays, values)
            return cast(R, found.pack(self._run_reference(values, *arrays)))
        if _jax_hooks.is_eager():
            return cast(R, self._compiled(values)(*arrays))
        return cast(R, self._bind(arrays, values))

    def _is_reference(self, implementation: str) -> bool:
        """Whether a call asks for the reference, or else for the handler."""
        what = "implementation"
        if implementation not in ("reference", "handler"):
            expected = "None, 'reference' or 'handler'"
            raise ValueError(self.error(what, expected, repr(implementation)))
        if implementation == "reference" and self.reference is None:
            raise ValueError(
                self.error(
                    what,
                    "None or 'handler', as the operation has a shape function "
                    "instead of a reference",
                    repr(implementation),
                )
            )
        return implementation == "reference"

    def _bind(
        self, operands: Sequence[jax.Array], attributes: AttributeValues
    ) -> Result:
        results = _jax_hooks.bind(self.primitive, operands, attributes)
        return self._types(operands, attributes).pack(results)

    def _compile(self, attributes: AttributeValues) -> Callable[..., object]:
        """The operation as a compiled program of its own, for eager calls."""

        def run(*operands: jax.Array) -> Result:
            return self._bind(operands, attributes)

        run.__name__ = self.name
        return jax.jit(run)


class Decorator(Protocol):
    """A decorator that makes an operation from its reference."""

    def __call__(self, reference: Callable[..., R], /) -> FfiOp[R]:
        """Returns the operation of a reference."""


def ffi_op(
    name: str,
    *,
    kernel_axes: int | Sequence[int],
    dtypes: Sequence[DType | Sequence[DType]] | None = None,
    **options: Unpack[Options],
) -> Decorator:
    """Returns a decorator that makes an `FfiOp` from its reference.

    Example:
      @xla_ffi_kit.ffi_op("lib.scale", kernel_axes=0, libraries="lib.so")
      def scale(x):
          return 2 * x

    Args:
      name: the same as for `FfiOp`.
      kernel_axes: the same as for `FfiOp`.
      dtypes: the same as for `FfiOp`.
      **options: the other arguments of `FfiOp`.
    """

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        return FfiOp(
            name, reference, kernel_axes=kernel_axes, dtypes=dtypes, **options
        )

    return decorate
