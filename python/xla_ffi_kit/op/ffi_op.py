"""`FfiOp`: a kernel as a JAX operation, from one declarative spec."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Literal, TypedDict, TypeVar, cast

import jax
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library import handler_library
from xla_ffi_kit.library.handler_library import Library
from xla_ffi_kit.op import (
    _attributes,
    _citizen,
    _lowering,
    _operands,
    _shared,
    _signature_check,
)
from xla_ffi_kit.op import implementation as implementations
from xla_ffi_kit.op._attributes import AttributeValues
from xla_ffi_kit.op._rules import Rules
from xla_ffi_kit.op._types import ResultTypes
from xla_ffi_kit.op.spec import (
    AttributeType,
    Function,
    OpSpec,
    Result,
    ShardedKernelAxes,
    Transpose,
    VmapMethod,
    Workspace,
)

R = TypeVar("R", bound=Result, covariant=True)

_operations: weakref.WeakSet[OpSpec] = weakref.WeakSet()


class Options(TypedDict, total=False):
    """What `FfiOp` takes beside the name, `kernel_axes` and `dtypes`."""

    handlers: Mapping[str, str | Function]
    libraries: Sequence[Library]
    attributes: Mapping[str, AttributeType]
    check: Callable[..., None]
    jvp: Callable[..., tuple[Result, Result]]
    linear: Sequence[int]
    transpose: Transpose
    shared: Sequence[int]
    shared_results: Sequence[int]
    batches_shared: bool
    partitioned: Function
    aliases: Mapping[int, int]
    has_side_effect: bool
    vmap_method: VmapMethod
    sharded_kernel_axes: ShardedKernelAxes
    part_of: str | Sequence[str]
    workspace: Mapping[str, Workspace]


def operations() -> list[OpSpec]:
    """Every operation of this process, by name."""
    return sorted(_operations, key=lambda op: op.name)


class FfiOp(OpSpec, Generic[R]):
    """A JAX operation that runs a handler where there is one.

    The reference, a pure JAX function, defines what the operation means:
    result shapes and dtypes, every derivative that the spec does not give, and
    what runs on a platform without a handler all come from it.

    An operation works under jit, vmap, jvp, grad, of any order, scan, remat,
    shard_map, meshes with Auto and Explicit axes, and export.

    Args:
      name: the operation's name, used in errors, jaxprs and the switch to the
        reference; also the default custom call target.
      reference: `reference(*operands, **attributes)` in JAX, returning an array
        or a tuple of arrays. Operands positional, attributes keyword-only.
        It must treat every axis left of the kernel's own as a batch axis, and
        its results begin with those same axes.
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
      aliases: operand index -> result index that shares its buffer. In place if
        the operand is donated or dead, else XLA copies it first.
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

    def __init__(
        self,
        name: str,
        reference: Callable[..., R],
        *,
        kernel_axes: int | Sequence[int],
        handlers: Mapping[str, str | Function] | None = None,
        libraries: Library | Sequence[Library] = (),
        attributes: Mapping[str, AttributeType] | None = None,
        dtypes: Sequence[DType | Sequence[DType]] | None = None,
        check: Callable[..., None] | None = None,
        jvp: Callable[..., tuple[Result, Result]] | None = None,
        linear: Sequence[int] = (),
        transpose: Transpose | None = None,
        shared: Sequence[int] = (),
        shared_results: Sequence[int] = (),
        batches_shared: bool = False,
        partitioned: Function | None = None,
        aliases: Mapping[int, int] | None = None,
        has_side_effect: bool = False,
        vmap_method: VmapMethod = "broadcast_all",
        sharded_kernel_axes: ShardedKernelAxes = "error",
        part_of: str | Sequence[str] = (),
        workspace: Mapping[str, Workspace] | None = None,
    ) -> None:
        signature = inspect.signature(reference)
        names = _operands.names(name, signature, attributes or {})
        if isinstance(kernel_axes, int):
            kernel_axes = (kernel_axes,) * len(names)
        found = handler_library.all_of(libraries)
        if_registered = handlers is None and not found
        if handlers is None:
            handlers = {lib.platform: name for lib in found}
        if if_registered:
            handlers = dict.fromkeys(("cpu", "cuda"), name)
        if dtypes is not None:
            check = _citizen.dtype_check(name, names, dtypes, check)
        super().__init__(
            name=name,
            reference=reference,
            operand_names=names,
            kernel_axes=_check.sequence(f"{name}: kernel_axes", kernel_axes),
            handlers=dict(handlers),
            if_registered=if_registered,
            libraries=found,
            check=check,
            jvp=jvp,
            linear=_check.sequence(f"{name}: linear", linear),
            transpose=transpose,
            shared=_check.sequence(f"{name}: shared", shared),
            shared_results=_check.sequence(
                f"{name}: shared_results", shared_results
            ),
            batches_shared=batches_shared,
            partitioned=partitioned or reference,
            aliases=dict(aliases or {}),
            has_side_effect=has_side_effect,
            vmap_method=vmap_method,
            sharded_kernel_axes=sharded_kernel_axes,
            part_of=(part_of,) if isinstance(part_of, str) else tuple(part_of),
            workspace=dict(workspace or {}),
        )
        _citizen.resemble(self, reference, signature)
        self._bind_attributes = _attributes.Binder(
            name, attributes or {}, _citizen.defaults(signature)
        )
        self._types = ResultTypes(self)
        _signature_check.check(self, attributes or {}, dtypes)
        self.primitive = _jax_hooks.Primitive(name)
        self.primitive.multiple_results = True
        self.primitive.def_effectful_abstract_eval(self._types.abstract_eval)
        _jax_hooks.define_eager_call(self.primitive)
        self._rules = Rules(self, self.primitive, self._types)
        self._rules.install()
        _lowering.install(self, self.primitive)
        # Eager calls go past the primitive, which would take as long again.
        self._compiled = functools.lru_cache(maxsize=1024)(self._compile)
        self._run_reference = jax.jit(
            lambda *operands, attributes: self._types.pack(
                _shared.in_jax(self, reference, attributes, *operands)
            ),
            static_argnames="attributes",
        )
        _operations.add(self)
        implementations.add_operation(self)

    def __reduce__(self) -> str:
        return _citizen.import_path(self)

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
            operands = _citizen.operands_by_name(self, operands, attributes)
        arrays = [
            _check.array(self.name, name, x)
            for name, x in zip(self.operand_names, operands, strict=True)
        ]
        values = self._bind_attributes(attributes)
        if implementation not in (None, "reference"):
            raise ValueError(
                f"{self.name}: implementation: expected None or 'reference', "
                f"got {implementation!r}"
            )
        if implementation or implementations.runs_reference(self):
            _operands.leading_shape(self, arrays)
            self._types(arrays, values)
            results = self._run_reference(*arrays, attributes=values)
        elif _jax_hooks.is_eager():
            results = self._compiled(values)(*arrays)
        else:
            results = self._types.pack(self._rules.bind(arrays, values))
        return cast(R, results)

    def _compile(self, attributes: AttributeValues) -> Callable[..., object]:
        """The operation as a compiled program of its own, for eager calls."""

        def run(*operands: jax.Array) -> Result:
            return self._types.pack(self._rules.bind(operands, attributes))

        run.__name__ = self.name
        return jax.jit(run)
