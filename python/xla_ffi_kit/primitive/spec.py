"""`OpSpec`: an operation as data, which all of the kit reads."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeAlias, TypedDict, TypeVar, get_args

import jax

from xla_ffi_kit import _check
from xla_ffi_kit._check import Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library import handler_library
from xla_ffi_kit.library.handler_library import Library
from xla_ffi_kit.primitive.device_kernel import DeviceKernel, target_of

_K = TypeVar("_K")
_T = TypeVar("_T")
Arrays: TypeAlias = tuple[jax.Array, ...]
Result: TypeAlias = jax.Array | Arrays
# The result of a shape function.
ResultTypes: TypeAlias = Typed | tuple[Typed, ...]
# Returns the cotangents of the linear operands; None for one not wanted.
Transpose: TypeAlias = Callable[
    ..., jax.Array | Sequence[jax.Array | None] | None
]
# It has the reference's signature: operands positional, attributes by keyword.
Function: TypeAlias = Callable[..., Result]
# Returns the results and what the second function needs: a pytree of arrays.
Forward: TypeAlias = Callable[..., tuple[Result, object]]
# Returns bytes, given the types of operands, and attributes by keyword.
Workspace: TypeAlias = Callable[..., int]
# The declaration of an attribute: a dtype, the type `str`, a dtype in a
# one-tuple for an array, or a mapping for a dictionary.
AttributeType: TypeAlias = DType | tuple[DType] | Mapping[str, "AttributeType"]
# The order of an array's kernel axes in memory, major to minor.
Layout: TypeAlias = Sequence[int] | None
VmapMethod = Literal["broadcast_all", "expand_dims", "sequential"]
ShardedKernelAxes = Literal["error", "gather"]


class Options(TypedDict, total=False):
    """The keyword arguments of `FfiOp`, which explains them.

    `kernel_axes`, `dtypes` and `results` are not among them, because functions
    that pass on the others have these three in a different form.
    """

    handlers: Mapping[str, str | Function | DeviceKernel]
    libraries: Library | Sequence[Library]
    attributes: Mapping[str, AttributeType]
    shape_attributes: Callable[..., Mapping[str, object]] | None
    check: Callable[..., None] | None
    jvp: Callable[..., tuple[Result, Result]] | None
    vjp: tuple[Forward, Transpose] | None
    linear: Sequence[int]
    transpose: Transpose | None
    shared: Sequence[int]
    shared_results: Sequence[int]
    batches_shared: bool
    partitioned: Function | None
    input_output_aliases: Mapping[int, int] | None
    input_layouts: Sequence[Layout] | None
    output_layouts: Sequence[Layout] | None
    has_side_effect: bool
    vmap_method: VmapMethod
    sharded_kernel_axes: ShardedKernelAxes
    part_of: str | Sequence[str]
    workspace: Mapping[str, Workspace] | None


class NotDifferentiableError(TypeError):
    """An operation without a reference lacks the rule for a derivative."""


class OpSpec:
    """The checked options of an operation, and what follows from them.

    Raises TypeError or ValueError if options contradict each other.
    """

    def __init__(
        self,
        name: str,
        reference: Function | None,
        results: Callable[..., ResultTypes] | None,
        kernel_axes: int | Sequence[int],
        options: Options,
    ) -> None:
        if not isinstance(name, str):
            raise TypeError(f"FfiOp: name: expected a string, got {name!r}")
        self.name = name
        self.options = options
        self._check_names("argument", options, Options.__annotations__)
        self.reference = reference
        self.results = results
        self.attributes = options.get("attributes") or {}
        self.signature = self._signature_of(reference, results)
        self.operand_names = self._operand_names()
        self.kernel_axes = self._axes_of_each(kernel_axes)

        self.libraries = handler_library.all_of(
            options.get("libraries", ()), f"{name}: libraries"
        )
        given = self._mapping("handlers", options.get("handlers"))
        # If nothing names the platforms, it may be registered on any of them.
        self.if_registered = given is None and not self.libraries
        platforms = [lib.platform for lib in self.libraries] or ["cpu", "cuda"]
        self.handlers = (
            dict.fromkeys(platforms, name) if given is None else dict(given)
        )
        self.shape_attributes = options.get("shape_attributes")
        self.check = options.get("check")
        self.workspace = dict(options.get("workspace") or {})

        self.jvp = options.get("jvp")
        self.vjp = self._pair(options.get("vjp"))
        self.linear = self._indices("linear", options.get("linear", ()))
        self.transpose = options.get("transpose")

        self.shared = self._indices("shared", options.get("shared", ()))
        self.shared_results = _check.sequence(
            f"{name}: shared_results", options.get("shared_results", ())
        )
        self.batches_shared = self._flag("batches_shared", options)
        self.partitioned = options.get("partitioned") or reference

        self.input_output_aliases = dict(
            self._mapping(
                "input_output_aliases", options.get("input_output_aliases")
            )
            or {}
        )
        self._indices("input_output_aliases", self.input_output_aliases)
        self.input_layouts = self._layouts("input_layouts", options)
        self.output_layouts = self._layouts("output_layouts", options)
        self.has_side_effect = self._flag("has_side_effect", options)
        self.vmap_method = options.get("vmap_method", "broadcast_all")
        self.sharded_kernel_axes = options.get("sharded_kernel_axes", "error")
        part_of = options.get("part_of", ())
        self.part_of = (
            (part_of,)
            if isinstance(part_of, str)
            else _check.sequence(f"{name}: part_of", part_of)
        )
        self._check_together()

    def error(self, argument: str, expected: str, got: object) -> str:
        """Returns the message of an error about an argument."""
        return f"{self.name}: {argument}: expected {expected}, got {got}"

    def _check_names(
        self, what: str, given: Collection[str], known: Collection[str]
    ) -> None:
        for wrong in sorted(set(given) - set(known)):
            near = [name for name in known if wrong in name]
            near += difflib.get_close_matches(wrong, known)
            expected = near[0] if near else f"one of {', '.join(known)}"
            raise TypeError(self.error(what, expected, repr(wrong)))

    def _signature_of(
        self,
        reference: Function | None,
        results: Callable[..., ResultTypes] | None,
    ) -> inspect.Signature:
        """Returns the signature of the reference or of the shape function."""
        if (reference is None) == (results is None):
            got = "neither" if reference is None else "both"
            expected = "one of them, a function"
            raise TypeError(self.error("reference, results", expected, got))
        function = reference if results is None else results
        if not callable(function):
            what = "reference" if results is None else "results"
            raise TypeError(self.error(what, "a function", repr(function)))
        return inspect.signature(function)

    def _operand_names(self) -> tuple[str, ...]:
        """The operands of the signature, whose attributes are checked."""
        parameters = self.signature.parameters.values()
        keywords = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        if "implementation" in keywords:
            raise TypeError(
                f"{self.name}: attribute implementation: expected another "
                "name; calls use this one to choose the reference"
            )
        operands = tuple(
            p.name
            for p in parameters
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        )
        function = "reference" if self.results is None else "shape function"
        if keywords != set(self.attributes):
            message = (
                f"{self.name}: attributes: expected those of the {function}'s "
                f"signature, {sorted(keywords) or 'none'}, got "
                f"{sorted(self.attributes) or 'none'}"
            )
            if not self.attributes.keys().isdisjoint(operands):
                remedy = self.with_keywords(self.attributes)
                message += f"; make them keyword-only: {remedy}"
            raise TypeError(message)
        for unnamed in parameters:
            if unnamed.kind is unnamed.VAR_POSITIONAL:
                expected = "a name for each operand"
                got = f"*{unnamed.name}"
                why = "; an operation has a fixed number of operands"
                raise TypeError(self.error(function, expected, got) + why)
        return operands

    def with_keywords(self, names: Collection[str]) -> str:
        """The signature with `names` keyword-only, as attributes are."""
        own: list[inspect.Parameter] = []
        keywords: list[inspect.Parameter] = []
        for p in self.signature.parameters.values():
            if p.name in names or p.kind is p.KEYWORD_ONLY:
                keywords.append(p.replace(kind=p.KEYWORD_ONLY))
            else:
                own.append(p)
        return str(inspect.Signature([*own, *keywords]))

    def _axes_of_each(
        self, kernel_axes: int | Sequence[int]
    ) -> tuple[int, ...]:
        count = len(self.operand_names)
        if isinstance(kernel_axes, int):
            kernel_axes = (kernel_axes,) * count
        axes = _check.sequence(f"{self.name}: kernel_axes", kernel_axes)
        if len(axes) != count:
            function = "reference" if self.results is None else "shape function"
            expected = f"{count} numbers, one per operand of the {function}"
            raise ValueError(self.error("kernel_axes", expected, len(axes)))
        if any(n < 0 for n in axes):
            raise ValueError(self.error("kernel_axes", "numbers >= 0", axes))
        return axes

    def _pair(
        self, vjp: tuple[Forward, Transpose] | None
    ) -> tuple[Forward, Transpose] | None:
        if vjp is None:
            return None
        pair = isinstance(vjp, list | tuple) and len(vjp) == 2
        if not pair or not all(callable(f) for f in vjp):
            expected = "a pair of functions, (fwd, bwd)"
            raise TypeError(self.error("vjp", expected, repr(vjp)))
        if self.jvp is not None:
            raise ValueError(self.error("jvp, vjp", "one of them", "both"))
        return vjp[0], vjp[1]

    def _mapping(
        self, what: str, given: Mapping[_K, _T] | None
    ) -> Mapping[_K, _T] | None:
        if given is None or isinstance(given, Mapping):
            return given
        raise TypeError(self.error(what, "a mapping", repr(given)))

    def _flag(
        self,
        what: Literal["batches_shared", "has_side_effect"],
        options: Options,
    ) -> bool:
        given = options.get(what, False)
        if not isinstance(given, bool):
            raise TypeError(self.error(what, "True or False", repr(given)))
        return given

    def _indices(self, what: str, given: Collection[int]) -> tuple[int, ...]:
        """Indices of operands."""
        indices = _check.sequence(f"{self.name}: {what}", given)
        count = len(self.operand_names)
        if any(not isinstance(i, int) or not 0 <= i < count for i in indices):
            expected = f"operand indices below {count}"
            raise ValueError(self.error(what, expected, indices))
        return indices

    def _layouts(
        self, what: Literal["input_layouts", "output_layouts"], options: Options
    ) -> tuple[tuple[int, ...] | None, ...]:
        """Layouts of all operands or results, () where all are row-major."""
        found: list[tuple[int, ...] | None] = []
        for layout in _check.sequence(
            f"{self.name}: {what}", options.get(what) or ()
        ):
            order = None
            if layout is not None:
                order = _check.sequence(f"{self.name}: {what}", layout)
                if sorted(order) != list(range(len(order))):
                    expected = "orders of the kernel axes, such as (1, 0)"
                    raise ValueError(self.error(what, expected, order))
            found.append(order)
        if what == "input_layouts" and found:
            axes = [
                n if order is None else len(order)
                for n, order in zip(self.kernel_axes, found, strict=False)
            ]
            if len(found) != len(self.kernel_axes) or axes != [
                *self.kernel_axes
            ]:
                raise ValueError(
                    self.error(
                        what,
                        "an order of the kernel axes of each operand, "
                        f"{list(self.kernel_axes)} of them",
                        found,
                    )
                )
        return tuple(found)

    def _check_together(self) -> None:
        for what, got, known in (
            ("vmap_method", self.vmap_method, get_args(VmapMethod)),
            (
                "sharded_kernel_axes",
                self.sharded_kernel_axes,
                get_args(ShardedKernelAxes),
            ),
        ):
            if got not in known:
                raise ValueError(self.error(what, f"one of {known}", repr(got)))
        for what, function in (
            ("shape_attributes", self.shape_attributes),
            ("check", self.check),
            ("jvp", self.jvp),
            ("transpose", self.transpose),
            ("partitioned", self.partitioned),
            *(("workspace", size) for size in self.workspace.values()),
        ):
            if function is not None and not callable(function):
                raise TypeError(self.error(what, "a function", repr(function)))
        if self.transpose is not None and not self.linear:
            expected = "operands that the results are linear in, for transpose"
            raise ValueError(self.error("linear", expected, "none"))
        for platform in self.workspace:
            if target_of(self.handlers.get(platform)) is None:
                expected = "platforms with a handler"
                raise ValueError(
                    self.error("workspace", expected, repr(platform))
                )
        if self.shared_results and not self.shared:
            expected = "none without shared operands"
            raise ValueError(
                self.error("shared_results", expected, self.shared_results)
            )
        if self.shared and self.vmap_method != "broadcast_all":
            expected = "'broadcast_all' with shared operands"
            raise ValueError(
                self.error("vmap_method", expected, repr(self.vmap_method))
            )
        if self.reference is None and not self.handlers:
            expected = "at least one, as there is no reference to run"
            raise ValueError(self.error("handlers", expected, "none"))

    @functools.cached_property
    def switch_names(self) -> frozenset[str]:
        """The names that `use_reference` accepts: full names and last parts."""
        full = (self.name, *self.part_of)
        return frozenset(full) | {name.rpartition(".")[2] for name in full}

    def own_axes(self, index: int, operand: Typed) -> int:
        """Returns the number of batch axes of an operand."""
        return len(operand.shape) - self.kernel_axes[index]

    def depth(self, operands: Sequence[Typed]) -> int:
        """Returns how many of the first batch axes some shared operand has."""
        own = (self.own_axes(i, operands[i]) for i in self.shared)
        return max(own, default=0)


def flatten(results: _T | tuple[_T, ...]) -> tuple[_T, ...]:
    """Results of a function as a tuple, also if there is only one."""
    return results if isinstance(results, tuple) else (results,)
