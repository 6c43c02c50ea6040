"""`FfiOp`: a kernel as a JAX operation, from one declarative spec."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import (
    Generic,
    Literal,
    Protocol,
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

_operations: weakref.WeakSet[OpSpec] = weakref.WeakSet()


def operations() -> list[OpSpec]:
    """Every operation of this process, by name."""
    return sorted(_operations, key=lambda op: op.name)


def forget(op: OpSpec) -> None:
    """Leaves an operation out of that list."""
    _operations.discard(op)


class FfiOp(OpSpec, Generic[R]):
    """A JAX operation that runs a handler where there is one.

    The reference, a pure JAX function, defines what the operation means:
    result shapes and dtypes, every derivative that the spec does not give, and
    what runs on a platform without a handler all come from it. What JAX cannot
    say, such as what an external library computes, has a shape function
    instead, `results`: it then runs only where there is a handler, and has the
    derivatives that it is given.

    An operation works under jit, vmap, jvp, grad, of any order, scan, remat,
    shard_map, meshes with Auto and Explicit axes, and export.

    Args:
      name: the operation's name, used in errors, jaxprs and the switch to the
        reference; also the default custom call target.
      reference: `reference(*operands, **attributes)` in JAX, returning an array
        or a tuple of arrays. Operands positional, attributes keyword-only.
        It must treat every axis left of the kernel's own as a batch axis, and
        its results begin with those same axes.
      results: in the place of a reference: `results(*operands, **attributes)`,
        called with operands that have only a shape and a dtype, without batch
        axes; returns a `jax.ShapeDtypeStruct`, or a tuple of them, for results
        without batch axes. The library must not write more than that: see
        `check_op`.
      kernel_axes: how many trailing axes of each operand the kernel owns; one
        number if it is the same for all. The axes before them batch, and are
        the same for all operands but `shared` ones.
      handlers: platform ("cpu", "cuda") -> custom call target, or a function
        of the reference's signature, of other operations, to run there.
        Default: `name` on the platforms of `libraries`; without these, where
        it is registered through `jax.ffi` when a program is lowered.
      libraries: handler libraries that offer the targets, or their paths, or
        one of them; for each platform the first that exists and has the target
        is used. With none, targets are registered through `jax.ffi`.
      attributes: name -> type: a dtype as in `dtypes`, `str`, `(np.int64,)`
        for an array, or a mapping of such for a dictionary. Handlers get
        exactly the declared type. Those with defaults in the reference's
        signature may be left out of a call.
      shape_attributes: `shape_attributes(*operands, **attributes)`, a mapping
        of attributes that the handlers get beside the others, computed from the
        shapes that they are called with, batch axes and, on a mesh, what a
        device holds included. Values are NumPy scalars or arrays of exactly the
        type that the handler takes, strings, Python's bool, int (int64) and
        float (float64), or mappings of such.
      dtypes: what the handlers take, checked before anything is compiled: for
        each combination a dtype if all operands have it, or one for each
        operand, ("f32", "s32") or "f32,s32". A dtype is a short name such as
        "bf16" or "i8" (its number counts bits), NumPy's whole name such as
        "float32", or a type of NumPy or JAX.
      check: `check(*operands, **attributes)`, called with operands that have
        only a shape and a dtype: raises TypeError or ValueError where the
        handlers cannot take them. Once for each signature.
      jvp: `jvp(primals, tangents, **attributes) -> (results, tangents)`, as
        `jax.custom_jvp` has it. The tangents must be linear in the tangents,
        e.g. by calling an operation with `linear` operands.
      vjp: `(fwd, bwd)`, as `jax.custom_vjp` has them, for reverse mode alone:
        `fwd(*operands, **attributes) -> (results, residuals)` and
        `bwd(residuals, cotangents, **attributes)`, returning the cotangents of
        all operands, None for one without.
      linear: operands that the results are jointly linear in.
      transpose: `transpose(cotangents, *operands, **attributes)`, returning the
        cotangents of the linear operands, in whose place it gets their types.
        Default: the transpose of the reference.
      shared: operands that have no batch axes: every row uses them, as it does
        a layer's weight. The reference, and every function here, gets them so.
      shared_results: results that have no batch axes: sums over the rows, as
        the gradient of a weight is. Where XLA could split the rows over
        devices, `partitioned` runs.
      batches_shared: whether the handler takes shared operands, and gives
        shared results, with the first batch axes of the call, which vmap adds.
        If not, such calls run `partitioned`.
      partitioned: a function of the reference's signature, of other
        operations; default: the reference.
      input_output_aliases: operand index -> result index that shares its
        buffer. In place if the operand is donated or dead, else XLA copies it
        first.
      input_layouts: for each operand None, if its kernel axes are row-major, or
        their order, major to minor: (1, 0) is a column-major matrix.
      output_layouts: the same for the results.
      has_side_effect: the call is neither removed nor repeated.
      vmap_method: what vmap does with operands that it does not map:
        "broadcast_all" repeats them, "expand_dims" gives them a leading axis of
        size one (the handler must broadcast it); "sequential" calls a handler
        that cannot batch once per element.
      sharded_kernel_axes: an operand whose kernel axes are sharded over an
        Explicit mesh is refused ("error") or gathered ("gather"). On an Auto
        mesh XLA gathers in either case.
      part_of: names of public functions, one or several, that run this
        operation under another name than its own: `use_reference` of such a
        name reaches it, as it should a function's variants and derivatives.
      workspace: platform -> `bytes(*operands, **attributes)`, called with
        operands that have only a shape and a dtype. Handlers of that platform
        get one result more, the last one, `uint8[bytes]`, which nobody else
        sees. Unlike the FFI's scratch memory it is still there when a CUDA
        graph runs, so that the handler can be captured. Where XLA could split
        the rows over devices, `partitioned` runs.
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
        Batching(self, self.primitive).install()
        lowering.install(self, self.primitive)
        # Eager calls go past the primitive, which would take as long again.
        self._compiled = functools.lru_cache(maxsize=1024)(self._compile)
        self._run_reference = jax.jit(
            lambda *operands, attributes: self._types.pack(
                shared_operands.in_jax(
                    self, self.reference, attributes, *operands
                )
            ),
            static_argnames="attributes",
        )
        _operations.add(self)
        reference_switch.add_operation(self)

    def __reduce__(self) -> str:
        return python_signature.import_path(self)

    def __repr__(self) -> str:
        return f"FfiOp({self.name!r})"

    def __call__(
        self,
        *operands: ArrayLike,
        implementation: Literal["reference"] | None = None,
        **attributes: object,
    ) -> R:
        """Runs the operation.

        Args:
          *operands: arrays, or what `jnp.asarray` takes; also by name.
          implementation: "reference" runs the reference; by default the
            platform and `use_reference` decide.
          **attributes: the attributes, static values.

        Returns:
          What the reference returns: an array or a tuple of arrays.

        Raises:
          TypeError: wrong number of operands, wrong name or type of an
            attribute.
          ValueError: wrong rank, leading axes that differ, an attribute out of
            range, or a sharded kernel axis.
          HandlerLibraryError: the handler library cannot be used.
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
        if implementation and implementation != "reference":
            expected = "None or 'reference'"
            raise ValueError(
                self.error("implementation", expected, repr(implementation))
            )
        if implementation and self.reference is None:
            raise ValueError(
                self.error(
                    "implementation",
                    "None, as the operation has a shape function instead of a "
                    "reference",
                    repr(implementation),
                )
            )
        if implementation or reference_switch.runs_reference(self):
            operand_checks.leading_shape(self, arrays)
            self._types(arrays, values)
            results = self._run_reference(*arrays, attributes=values)
        elif _jax_hooks.is_eager():
            results = self._compiled(values)(*arrays)
        else:
            results = self._types.pack(
                _jax_hooks.bind(self.primitive, arrays, values)
            )
        return cast(R, results)

    def _compile(self, attributes: AttributeValues) -> Callable[..., object]:
        """The operation as a compiled program of its own, for eager calls."""

        def run(*operands: jax.Array) -> Result:
            return self._types.pack(
                _jax_hooks.bind(self.primitive, operands, attributes)
            )

        run.__name__ = self.name
        return jax.jit(run)


class Decorator(Protocol):
    """What makes an operation of its reference."""

    def __call__(self, reference: Callable[..., R], /) -> FfiOp[R]:
        """The operation of a reference."""


def ffi_op(
    name: str,
    *,
    kernel_axes: int | Sequence[int],
    dtypes: Sequence[DType | Sequence[DType]] | None = None,
    **options: Unpack[Options],
) -> Decorator:
    """Makes an `FfiOp` of its reference, as a decorator.

    Example:
      @xla_ffi_kit.ffi_op("lib.scale", kernel_axes=0, libraries="lib.so")
      def scale(x):
          return 2 * x

    Args:
      name: as for `FfiOp`, and so are the others.
      kernel_axes: see there.
      dtypes: see there.
      **options: see there.
    """

    def decorate(reference: Callable[..., R]) -> FfiOp[R]:
        return FfiOp(
            name, reference, kernel_axes=kernel_axes, dtypes=dtypes, **options
        )

    return decorate
