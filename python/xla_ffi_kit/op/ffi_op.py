"""`FfiOp`: a kernel as a JAX operation, from one declarative spec."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import Primitive

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.op import (
    _attributes,
    _lowering,
    _operands,
    _rules,
    _sharding,
    _shared,
)
from xla_ffi_kit.op._attributes import AttributeValues
from xla_ffi_kit.op.implementation import runs_reference

_VMAP_METHODS = ("broadcast_all", "expand_dims", "sequential")
_SHARDED_KERNEL_AXES = ("error", "gather")

_operations: weakref.WeakSet[FfiOp] = weakref.WeakSet()


def operations() -> list[FfiOp]:
    """Every operation of this process, by name."""
    return sorted(_operations, key=lambda op: op.name)


class FfiOp:
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
        Default: `name` on the platforms of `libraries`.
      libraries: handler libraries that offer the targets; for each platform
        the first that exists and has the target is used. With none, the targets
        are expected to be registered through `jax.ffi` already.
      attributes: name -> type: a NumPy scalar type, `str`, `(np.int64,)` for an
        array, or a mapping of such for a dictionary. Handlers get exactly the
        declared type.
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
    """

    def __init__(
        self,
        name: str,
        reference: Callable[..., Any],
        *,
        kernel_axes: int | Sequence[int],
        handlers: Mapping[str, str | Callable[..., Any]] | None = None,
        libraries: Sequence[HandlerLibrary] = (),
        attributes: Mapping[str, Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        linear: Sequence[int] = (),
        transpose: Callable[..., Any] | None = None,
        shared: Sequence[int] = (),
        shared_results: Sequence[int] = (),
        batches_shared: bool = False,
        partitioned: Callable[..., Any] | None = None,
        aliases: Mapping[int, int] | None = None,
        has_side_effect: bool = False,
        vmap_method: str = "broadcast_all",
        sharded_kernel_axes: str = "error",
    ) -> None:
        self.name = name
        self.reference = reference
        self.operand_names = _operands.names(name, reference, attributes or {})
        count = len(self.operand_names)
        if isinstance(kernel_axes, int):
            kernel_axes = (kernel_axes,) * count
        self.kernel_axes = tuple(kernel_axes)
        if handlers is None:
            handlers = {lib.platform: name for lib in libraries}
        self.handlers = dict(handlers)
        self.libraries = tuple(libraries)
        self._bind_attributes = _attributes.Binder(name, attributes or {})
        self.jvp = jvp
        self.linear = tuple(linear)
        self.transpose = transpose
        self.shared = tuple(shared)
        self.shared_results = tuple(shared_results)
        self.batches_shared = batches_shared
        self.partitioned = partitioned or reference
        self.aliases = dict(aliases or {})
        self.has_side_effect = has_side_effect
        self.vmap_method = vmap_method
        self.sharded_kernel_axes = sharded_kernel_axes
        self._check_spec(count)

        self.primitive = Primitive(name)
        self.primitive.multiple_results = True
        self.primitive.def_effectful_abstract_eval(self._abstract_eval)
        _jax_hooks.define_eager_call(self.primitive)
        _rules.install(self)
        self._single: bool | None = None
        # Eager calls go past the primitive, which would take as long again.
        self._compiled = functools.lru_cache(maxsize=1024)(self._compile)
        self._cached_types = functools.lru_cache(maxsize=4096)(self._types)
        self._run_reference = jax.jit(
            lambda *operands, attributes: self.pack(
                _shared.evaluate(self, attributes, *operands)
            ),
            static_argnames="attributes",
        )
        _lowering.install(self)
        _operations.add(self)

    def _check_spec(self, count: int) -> None:
        if len(self.kernel_axes) != count:
            raise ValueError(
                f"{self.name}: kernel_axes: expected {count} numbers, one per "
                f"operand of the reference, got {len(self.kernel_axes)}"
            )
        for what, got, known in (
            ("vmap_method", self.vmap_method, _VMAP_METHODS),
            (
                "sharded_kernel_axes",
                self.sharded_kernel_axes,
                _SHARDED_KERNEL_AXES,
            ),
        ):
            if got not in known:
                raise ValueError(
                    f"{self.name}: {what}: expected one of {known}, got {got!r}"
                )
        for what, indices in (
            ("linear", self.linear),
            ("shared", self.shared),
            ("aliases", tuple(self.aliases)),
        ):
            if any(not 0 <= i < count for i in indices):
                raise ValueError(
                    f"{self.name}: {what}: expected operand indices below "
                    f"{count}, got {indices}"
                )
        if self.shared_results and not self.shared:
            raise ValueError(
                f"{self.name}: shared_results: expected none without shared "
                f"operands, got {self.shared_results}"
            )
        if self.shared and self.vmap_method != "broadcast_all":
            raise ValueError(
                f"{self.name}: vmap_method: expected 'broadcast_all' with "
                f"shared operands, got {self.vmap_method!r}"
            )

    def __repr__(self) -> str:
        return f"FfiOp({self.name!r})"

    def __call__(
        self,
        *operands: Any,
        implementation: str | None = None,
        **attributes: Any,
    ) -> Any:
        """Runs the operation.

        Args:
          *operands: arrays, or what `jnp.asarray` takes.
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
            raise TypeError(
                f"{self.name}: operands: expected {len(self.operand_names)} "
                f"({', '.join(self.operand_names)}), got {len(operands)}"
            )
        operands = tuple(
            _check.array(self.name, name, x)
            for name, x in zip(self.operand_names, operands, strict=True)
        )
        values = self._bind_attributes(attributes)
        if implementation not in (None, "reference"):
            raise ValueError(
                f"{self.name}: implementation: expected None or 'reference', "
                f"got {implementation!r}"
            )
        if implementation or runs_reference(self.name):
            self.check_operands(operands)
            self.result_types(operands, values)
            return self._run_reference(*operands, attributes=values)
        if _jax_hooks.is_eager():
            return self._compiled(values)(*operands)
        return self.pack(self.bind(operands, values))

    def _compile(self, attributes: AttributeValues) -> Callable[..., Any]:
        """The operation as a compiled program of its own, for eager calls."""

        def run(*operands: Any) -> Any:
            return self.pack(self.bind(operands, attributes))

        run.__name__ = self.name
        return jax.jit(run)

    # The rest of the public names serve the kit's own modules.

    def bind(self, operands: Sequence[Any], attributes: Any) -> list[Any]:
        """Applies the primitive; a list of results."""
        if len(operands) > 1:
            operands = _jax_hooks.match_manual_axes(operands)
        return self.primitive.bind(*operands, attributes=attributes)

    def flatten(self, results: Any) -> tuple[Any, ...]:
        """Results of the reference as a tuple, also if there is only one."""
        return tuple(results) if isinstance(results, tuple) else (results,)

    def pack(self, results: Sequence[Any]) -> Any:
        """The inverse of `flatten`, after the reference was traced once."""
        return results[0] if self._single else tuple(results)

    def result_types(
        self, operands: Sequence[Any], attributes: AttributeValues
    ) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Shapes and dtypes of the results, those of the reference."""
        # A reference may make 64-bit results of its own where they are on.
        return self._cached_types(
            tuple((x.shape, x.dtype) for x in operands),
            attributes,
            jax.config.jax_enable_x64,  # type: ignore[attr-defined]
        )

    def check_operands(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Checks ranks and batch axes; returns the operands' leading shape."""
        return _operands.leading_shape(self, operands)

    def _types(
        self,
        operands: tuple[tuple[tuple[int, ...], Any], ...],
        attributes: AttributeValues,
        x64: bool,
    ) -> tuple[jax.ShapeDtypeStruct, ...]:
        del x64  # part of the key alone
        try:
            structs = [jax.ShapeDtypeStruct(*operand) for operand in operands]
            results = jax.eval_shape(
                _shared.over_batches(
                    self,
                    functools.partial(
                        self.reference, **attributes.for_reference
                    ),
                    structs,
                ),
                *structs,
            )
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"{self.name}: the reference does not take operands "
                f"{_operands.describe(self.operand_names, operands)}: {error}"
            ) from error
        types = self.flatten(results)
        if not all(isinstance(t, jax.ShapeDtypeStruct) for t in types):
            raise TypeError(
                f"{self.name}: results of the reference: expected an array or "
                f"a tuple of arrays, got {jax.tree.structure(results)}"
            )
        self._single = types is not results
        return types

    def _abstract_eval(
        self, *avals: Any, attributes: AttributeValues
    ) -> tuple[tuple[Any, ...], Any]:
        lead = self.check_operands(avals)
        types = self.result_types(avals, attributes)
        _operands.check_results(self, avals, types, lead)
        effects = {_jax_hooks.SIDE_EFFECT} if self.has_side_effect else set()
        if not avals:
            return tuple(
                jax.core.ShapedArray(t.shape, t.dtype) for t in types
            ), effects
        if self.sharded_kernel_axes == "error":
            for name, aval, axes in zip(
                self.operand_names, avals, self.kernel_axes, strict=True
            ):
                at = len(aval.shape) - axes
                _sharding.check_kernel_axes(self.name, name, aval, at)
        template = next((a for a in avals if _sharding.has_mesh(a)), avals[0])
        specs = _sharding.lead_specs(self, avals, lead)
        first = specs[: _shared.depth(self, avals)]
        return tuple(
            _sharding.with_specs(
                template,
                t.shape,
                t.dtype,
                first if i in self.shared_results else specs,
            )
            for i, t in enumerate(types)
        ), effects
