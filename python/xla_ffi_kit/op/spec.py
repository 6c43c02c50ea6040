"""`OpSpec`: an operation as data, which all of the kit reads."""

from __future__ import annotations

import abc
import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import (
    Any,
    ClassVar,
    Literal,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
)

import jax
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library.handler_library import HandlerLibrary, Library
from xla_ffi_kit.library.signature import Argument, Signature

_T = TypeVar("_T")
Arrays: TypeAlias = tuple[jax.Array, ...]
Result: TypeAlias = jax.Array | Arrays
# Returns the cotangents of the linear operands, None for one that is a value.
Transpose: TypeAlias = Callable[
    ..., jax.Array | Sequence[jax.Array | None] | None
]
# It has the reference's signature: operands positional, attributes by keyword.
Function: TypeAlias = Callable[..., Result]
# Returns the types of the results.
ShapeFunction: TypeAlias = Callable[..., Typed | tuple[Typed, ...]]
# Returns the results and what the second function needs: a pytree of arrays.
Forward: TypeAlias = Callable[..., tuple[Result, object]]
# Returns bytes, given the types of operands, and attributes by keyword.
Workspace: TypeAlias = Callable[..., int]
# The declaration of an attribute: a dtype, the type `str`, a dtype in a
# one-tuple for an array, or a mapping for a dictionary; None for a parameter
# that handlers do not get.
AttributeType: TypeAlias = (
    DType | tuple[DType] | Mapping[str, "AttributeType"] | None
)
# The attributes that a device kernel's handler gets, from the operands of a
# call, batch axes included.
KernelAttributes: TypeAlias = Callable[[Sequence[Typed]], Mapping[str, object]]
VmapMethod = Literal["broadcast_all", "expand_dims", "sequential"]
ShardedKernelAxes = Literal["error", "gather", "restore"]
# How the shared results of several calls become those of one.
Combination = Literal["sum", "max", "min"]


@dataclasses.dataclass(frozen=True)
class Request:
    """A call, as far as it is known before its shapes.

    Attributes:
      operands: the types of the operands.
      results: the types of the results.
      attributes: the operation's attributes, as NumPy values.
      plain_attributes: the same, as the reference gets them.
      is_for_export: whether the program may run on another machine.
    """

    operands: Sequence[Typed]
    results: Sequence[Typed]
    attributes: Mapping[str, object]
    plain_attributes: Mapping[str, object]
    is_for_export: bool


class DeviceKernel(abc.ABC):
    """A kernel that runs in a handler which many operations share.

    Attributes:
      library: the handler's library; None if it is registered already.
      target: the handler's custom call target.
      needs_shapes: whether its attributes depend on the sizes of axes. If they
        do, the sizes must be known, and on a mesh they are one device's.
    """

    library: HandlerLibrary | None
    target: str
    needs_shapes: ClassVar[bool] = False

    @abc.abstractmethod
    def prepare(self, request: Request) -> KernelAttributes | None:
        """Prepares a call; returns None if the reference must run instead."""

    @abc.abstractmethod
    def by(self, target: str) -> DeviceKernel:
        """Returns the same kernel for another handler, which is registered."""

    def report(self) -> str:
        """How it runs, in a few words."""
        return f"the handler {self.target}"


@dataclasses.dataclass(frozen=True)
class TargetsByDtypes:
    """Custom call targets, one for each combination of the operands' dtypes.

    Attributes:
      targets: names of the dtypes of all operands -> the target.
    """

    targets: Mapping[tuple[str, ...], str]

    def of(self, dtypes: Mapping[int, str]) -> str:
        """The target for operands of these dtypes, by their positions."""
        return next(
            target
            for names, target in self.targets.items()
            if all(
                names[min(position, len(names) - 1)] == dtype
                for position, dtype in dtypes.items()
            )
        )


# What runs an operation on a platform: a custom call target, or one for each
# combination of dtypes, a kernel, or a function of the reference's signature
# that calls other operations.
PlatformHandler: TypeAlias = str | TargetsByDtypes | Function | DeviceKernel
# For each platform what runs there, as authors give it.
Handlers: TypeAlias = Mapping[
    str, str | Mapping[str, str] | Function | DeviceKernel
]


def targets_of(handler: object) -> tuple[str, ...]:
    """The custom call targets of what an operation has for a platform."""
    if isinstance(handler, TargetsByDtypes):
        return tuple(dict.fromkeys(handler.targets.values()))
    target = target_of(handler)
    return () if target is None else (target,)


def target_of(handler: object) -> str | None:
    """The one custom call target of what an operation has for a platform."""
    if isinstance(handler, DeviceKernel):
        return handler.target
    return handler if isinstance(handler, str) else None


class OwnDerivatives(Protocol):
    """Makes operations that are derivatives of an operation.

    Attributes:
      over_rows: what runs instead of an operation that is a derivative itself,
        where its shared operands have batch axes. None for others.
    """

    over_rows: Callable[..., Result] | None

    def jvp(
        self, active: Sequence[int], result_axes: Sequence[int], /
    ) -> Callable[..., Result]:
        """The tangents of the results, linear in those of active operands.

        Only results that are floats have tangents.

        Args:
          active: the operands that have tangents.
          result_axes: the number of kernel axes of each such result.

        Returns:
          A function of all operands and then of the active ones' tangents. It
          returns an array or a tuple of arrays.
        """

    def jacobian(
        self,
        spec: OpSpec,
        active: Sequence[int],
        operands: Sequence[Typed],
        results: Sequence[Typed],
        /,
    ) -> Callable[..., tuple[Arrays, Arrays]] | None:
        """The results and their tangents, by a Jacobian of each row.

        Args:
          spec: the operation.
          active: the operands that have tangents.
          operands: the types of a row's operands.
          results: the types of a row's results.

        Returns:
          A function of all operands and then of the active ones' tangents; None
          where the Jacobian is too large, and `jvp` is to be called.
        """

    def targets(self) -> list[str]:
        """The custom call targets of all derivatives that are compiled."""

    def report(self) -> str:
        """Where the derivatives come from, and those made so far."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Advanced:
    """Options of an `FfiOp` that few operations need.

    Functions get every operand of the reference, None for one that a call
    leaves out. A result is meant by the name that it has in the handler's
    signature, or by its index.

    Attributes:
      check: `check(*operands, **attributes)` is called with operands that have
        only a shape and a dtype. It raises TypeError or ValueError if the
        handlers cannot take them. It runs once for each signature.
      has_side_effect: whether the call must be neither removed nor repeated.
        Two such calls may run in another order than written.
      vmap_method: what vmap does with operands that it does not map:
        "broadcast_all" repeats them; "expand_dims" gives them a leading axis of
        size one, which the handler must broadcast; "sequential" calls a handler
        that cannot batch once for each element, in a loop. Where the reference
        has a collective over an axis that vmap names, the reference runs.
      one_batch_axis: whether the handler takes exactly one batch axis. The
        batch axes of a call, none or several, become one, and results get
        theirs back; on a mesh each device does so with its rows.
      columns: the name in `axes` of an axis whose elements are computed apart,
        as the right sides of a system. `vmap` of operands that have it, and of
        no others, makes this axis longer, and repeats none of the others. Such
        an axis of `vmap` is gathered where an Auto mesh shards it.
      symbolic_zeros: whether `jvp` gets None instead of a tangent that is zero,
        as that of an operand that is not differentiated is.
      sharded_kernel_axes: an operand whose kernel axes are sharded over an
        Explicit mesh is refused ("error") or gathered ("gather"). On an Auto
        mesh XLA gathers in either case; with "restore" it then shards the axes
        of results as those of the same names in operands (see `axes`).
      part_of: the name of a public function that runs this operation, or
        several names. `use_reference` of such a name switches this operation
        off, too. Use it for the variants and derivatives of a function.
      shared_results: the results without batch axes, such as the gradient of a
        weight, which is a sum over the rows. A call has one of each, and under
        vmap every element is a call. A mesh has calls on each device, of which
        such results are added. {"iterations": "max"} says how else: "sum",
        "max" or "min".
      batches_shared: whether the handler takes shared operands, and returns
        shared results, with the first batch axes of the call, which vmap adds.
        If not, such calls run `partitioned`.
      partitioned: a function with the reference's signature that calls other
        operations. It runs wherever XLA could split the rows of a call with
        shared results, with shared operands that have batch axes or with a
        workspace over devices. By default, each device calls the handler for
        its rows, and the reference runs where none can: in an exported program.
      shape_attributes: `shape_attributes(*operands, **attributes)` returns a
        mapping of additional attributes of the handlers. It gets the shapes
        with which the handlers are called: with batch axes and, on a mesh,
        those of one device. XLA may split a call over devices itself if they
        do not depend on the sizes of batch axes. Values are NumPy scalars or
        arrays of exactly the type that the handler takes, strings, Python's
        bool, int (int64) and float (float64), or mappings of these.
      input_layouts: the order of an operand's kernel axes in memory, major to
        minor: {"a": (1, 0)} for a column-major matrix. Others are row-major.
      output_layouts: the same for results.
      workspace: platform -> `bytes(*operands, **attributes)`, called with
        operands that have only a shape and a dtype. Handlers of that platform
        get an additional last result, `uint8[bytes]`, which callers do not see.
        Unlike the FFI's scratch memory, it still exists when a CUDA graph runs,
        so the handler can be captured.
      linear_solve: how derivatives by `solves` solve their linear systems:
        `linear_solve(product, b, transposed, *results, *operands,
        **attributes)` returns the v for which `product(v)` is b. The product is
        that with the derivative of the residual towards the results, or with
        its transpose; v is like the results and b like the residual, or the
        other way round. By default up to 512 numbers are solved by a matrix,
        and more by GMRES, with NaN where that does not converge.
      differentiate: makes the operations that compute derivatives, instead of
        `jvp` and `vjp`, as `derivatives="kernel"` of strings does.
    """

    check: Callable[..., None] | None = None
    has_side_effect: bool = False
    vmap_method: VmapMethod = "broadcast_all"
    one_batch_axis: bool = False
    columns: str | None = None
    symbolic_zeros: bool = False
    sharded_kernel_axes: ShardedKernelAxes = "error"
    part_of: str | Sequence[str] = ()
    shared_results: (
        str | int | Sequence[str | int] | Mapping[str | int, Combination]
    ) = ()
    batches_shared: bool = False
    partitioned: Function | None = None
    shape_attributes: Callable[..., Mapping[str, object]] | None = None
    input_layouts: Mapping[str, Sequence[int]] = dataclasses.field(
        default_factory=dict
    )
    output_layouts: Mapping[str | int, Sequence[int]] = dataclasses.field(
        default_factory=dict
    )
    workspace: Mapping[str, Workspace] = dataclasses.field(default_factory=dict)
    linear_solve: Callable[..., Result] | None = None
    differentiate: OwnDerivatives | None = None


class Options(TypedDict, total=False):
    """The keyword arguments of `FfiOp` that decorators pass on to it.

    `kernel_axes`, `dtypes` and `results` are not among them, because the
    decorators have these three in a different form.
    """

    axes: str | None
    libraries: Library | Sequence[Library]
    handlers: Handlers | None
    attributes: Mapping[str, AttributeType] | None
    shared: str | Sequence[str] | None
    aliases: Mapping[str, str | int] | None
    jvp: Callable[..., tuple[Result, Result]] | None
    vjp: tuple[Forward, Transpose] | None
    linear: str | Sequence[str]
    bilinear: Sequence[str]
    transpose: Transpose | None
    solves: Function | None
    advanced: Advanced | None


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand of an operation."""

    name: str  # "xs[2]" for one of `*xs`
    parameter: str  # the reference's
    position: int  # among all operands of the reference
    axes: int = 0  # the kernel's
    letters: tuple[str, ...] = ()  # of these axes, if `axes` names them
    is_optional: bool = False
    is_repeated: bool = False  # stands for one of any number
    is_shared: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class OpSpec:
    """An operation: its options, checked, and what follows from them.

    `declare.declare` makes it. The indices of operands and results are those of
    a call with `operands`, which may be some of the reference's: see
    `with_positions`.
    """

    name: str
    reference: Function | None
    results: ShapeFunction | None
    parameters: inspect.Signature  # of one of these two
    operands: tuple[Operand, ...]
    all_attributes: Mapping[str, AttributeType]  # of any set of operands
    dtypes: Sequence[Sequence[str]] | None  # combinations for all operands
    result_letters: Sequence[Sequence[str]] | None
    handlers: Mapping[str, PlatformHandler]
    libraries: tuple[HandlerLibrary, ...]
    if_registered: bool  # the handlers are on whatever platform has them
    contract: Signature | None  # the handler's, if its library states one
    jvp: Callable[..., tuple[Result, Result]] | None
    vjp: tuple[Forward, Transpose] | None
    linear_parameters: tuple[str, ...]
    is_bilinear: bool  # linear in each of these two, and not in both together
    transpose: Transpose | None
    solves: Function | None  # the residual that the results make zero
    aliases: Mapping[str, str | int]
    advanced: Advanced
    problem: str = ""  # what is not declared and no library tells yet
    # `FfiOp` installs its rules before the first use.
    primitive: _jax_hooks.Primitive = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        primitive = _jax_hooks.Primitive(self.name)
        primitive.multiple_results = True
        object.__setattr__(self, "primitive", primitive)

    def error(self, argument: str, expected: str, got: object) -> str:
        """Returns the message of an error about an argument."""
        return message(self.name, argument, expected, got)

    # --- Operands -------------------------------------------------------------

    def with_positions(self, positions: Sequence[int]) -> OpSpec:
        """The same for a call with only some operands, and repeated ones."""
        by_position = {operand.position: operand for operand in self.operands}
        last = self.operands[-1]
        operands = []
        for position in positions:
            operand = by_position.get(position, last)
            if operand.is_repeated:
                name = f"{last.parameter}[{position - last.position}]"
                operand = dataclasses.replace(
                    last, name=name, position=position
                )
            operands.append(
                dataclasses.replace(
                    operand, is_optional=False, is_repeated=False
                )
            )
        spec = dataclasses.replace(self, operands=tuple(operands))
        if self.contract is not None:
            arguments = self.contract.operands
            by_number = self.contract.operands_of(len(operands))
            if by_number is None or (
                not arguments[-1].is_repeated
                and by_number
                != tuple(arguments[position] for position in positions)
            ):
                names = " and ".join(a.name for a in by_number or arguments)
                raise TypeError(
                    spec.error(
                        "operands",
                        f"{names} if there are {len(operands)}, as the "
                        "handler tells them by their number",
                        ", ".join(spec.operand_names),
                    )
                )
        return spec

    @functools.cached_property
    def has_choices(self) -> bool:
        """Whether calls may have different sets of operands."""
        return any(o.is_optional or o.is_repeated for o in self.operands)

    @functools.cached_property
    def full_count(self) -> int:
        """The number of operands that the reference has in a call."""
        fixed = sum(
            p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
            for p in self.parameters.parameters.values()
        )
        return max((fixed, *(o.position + 1 for o in self.operands)))

    def fill(self, values: Sequence[_T]) -> list[_T | None]:
        """A value for each operand of the reference; None for one left out."""
        full: list[_T | None] = [None] * self.full_count
        for operand, value in zip(self.operands, values, strict=True):
            full[operand.position] = value
        return full

    @functools.cached_property
    def operand_names(self) -> tuple[str, ...]:
        """The names of the operands of a call."""
        return tuple(operand.name for operand in self.operands)

    @functools.cached_property
    def kernel_axes(self) -> tuple[int, ...]:
        """The number of kernel axes of each operand."""
        return tuple(operand.axes for operand in self.operands)

    @functools.cached_property
    def only_dtypes(self) -> tuple[np.dtype[np.generic] | None, ...]:
        """The dtype of each operand, None for one that may have several."""
        entries = self.dtypes or [[""]]
        last = len(entries[0]) - 1
        names = (
            {entry[min(operand.position, last)] for entry in entries} - {""}
            for operand in self.operands
        )
        return tuple(np.dtype(n.pop()) if len(n) == 1 else None for n in names)

    @functools.cached_property
    def shared(self) -> tuple[int, ...]:
        """The indices of the operands without batch axes."""
        return tuple(i for i, o in enumerate(self.operands) if o.is_shared)

    @functools.cached_property
    def linear_slots(self) -> tuple[int | None, ...]:
        """The linear operands as declared; None for one left out."""
        slots: list[int | None] = []
        for name in self.linear_parameters:
            slots += [
                i for i, o in enumerate(self.operands) if o.parameter == name
            ] or [None]
        return tuple(slots)

    @functools.cached_property
    def linear(self) -> tuple[int, ...]:
        """The indices of the operands in which results are linear."""
        return tuple(i for i in self.linear_slots if i is not None)

    @functools.cached_property
    def linear_groups(self) -> tuple[tuple[int, ...], ...]:
        """The linear operands: results are linear in each group together."""
        if self.is_bilinear:
            return tuple((i,) for i in self.linear)
        return (self.linear,)

    @functools.cached_property
    def input_layouts(self) -> dict[int, Sequence[int]]:
        """Operand -> the order of its kernel axes, where it is not usual."""
        orders = self.advanced.input_layouts
        return {
            i: orders[operand.parameter]
            for i, operand in enumerate(self.operands)
            if operand.parameter in orders
        }

    def batch_rank(self, index: int, operand: Typed) -> int:
        """The number of batch axes of an operand."""
        return len(operand.shape) - self.kernel_axes[index]

    @property
    def is_sequential(self) -> bool:
        """Whether every element of a batch is a call of the handler."""
        return self.advanced.vmap_method == "sequential"

    @functools.cached_property
    def loops(self) -> bool:
        """Whether nothing but a loop of calls runs the axes of `depth`.

        `vmap` gives them to operands that it does not map, with size one.
        """
        advanced = self.advanced
        return self.is_sequential or (
            bool(self.shared)
            and not advanced.batches_shared
            and (self.partitioned is None or advanced.has_side_effect)
        )

    @property
    def has_ones(self) -> bool:
        """Whether axes of `depth` may have size one in some operands."""
        return self.loops or self.advanced.vmap_method == "expand_dims"

    @functools.cached_property
    def vmap_loops(self) -> bool:
        """Whether `vmap` makes a call of each element, with shared results.

        No shared operand shows which batch axes of one call would be `vmap`'s.
        """
        return bool(self.shared_results) and not self.shared

    def depth(self, operands: Sequence[Typed]) -> int:
        """The number of first batch axes that only `vmap` or a loop goes over.

        A call that lacks them is what the reference and each rule computes.
        They are those that some shared operand has, or all of a handler that
        cannot batch.
        """
        indices = range(len(operands)) if self.is_sequential else self.shared
        return max(
            (self.batch_rank(i, operands[i]) for i in indices), default=0
        )

    @functools.cached_property
    def signature_operands(self) -> tuple[Argument, ...]:
        """The operands in the handler's signature, if it has one."""
        if self.contract is None:
            return ()
        return self.contract.operands_of(len(self.operands)) or ()

    @functools.cached_property
    def attributes(self) -> dict[str, AttributeType]:
        """The types of the attributes of a call with these operands."""
        operands = {argument.name for argument in self.signature_operands}
        attributes = self.contract.attributes if self.contract else ()
        absent = {a.name for a in attributes if a.unless_given in operands}
        return {
            name: type_
            for name, type_ in self.all_attributes.items()
            if name not in absent
        }

    # --- Results --------------------------------------------------------------

    @functools.cached_property
    def result_names(self) -> tuple[str, ...]:
        """The names of results in the handler's signature, if it has one."""
        results = self.contract.results if self.contract else ()
        operands = {None, *(a.name for a in self.signature_operands)}
        return tuple(r.name for r in results if r.given_with in operands)

    def result_index(self, result: str | int) -> int | None:
        """The index of a result, None if calls with these operands lack it."""
        if isinstance(result, int):
            return result
        names = self.result_names
        return names.index(result) if result in names else None

    @functools.cached_property
    def shared_results(self) -> dict[int, Combination]:
        """The indices of the results without batch axes, and what they are."""
        declared = self.advanced.shared_results
        if not isinstance(declared, Mapping):
            declared = dict.fromkeys(each(declared), "sum")
        by_index = {self.result_index(r): how for r, how in declared.items()}
        return {i: how for i, how in by_index.items() if i is not None}

    @functools.cached_property
    def input_output_aliases(self) -> dict[int, int]:
        """Operand -> the result that shares its buffer."""
        aliases = {}
        for i, operand in enumerate(self.operands):
            if operand.parameter in self.aliases:
                j = self.result_index(self.aliases[operand.parameter])
                if j is not None:
                    aliases[i] = j
        return aliases

    @functools.cached_property
    def output_layouts(self) -> dict[int, Sequence[int]]:
        """Result -> the order of its kernel axes, where it is not usual."""
        orders = self.advanced.output_layouts.items()
        by_index = {self.result_index(name): order for name, order in orders}
        return {i: order for i, order in by_index.items() if i is not None}

    def check_places_of_results(self) -> None:
        """ValueError if two operands share one result, or one has two layouts.

        Of a whole spec, and of calls with some operands: which result an index
        means may depend on these.
        """
        owners: dict[int, str] = {}
        for i, j in self.input_output_aliases.items():
            operand = self.operands[i]
            first, second, out = owners.get(j), operand.name, "one of them"
            if operand.is_repeated:
                second, third = (f"{operand.name}[{k}]" for k in range(2))
                if first is None:
                    first, second, out = second, third, operand.name
            if first is not None:
                result = self._describe_result(j)
                expected = f"one operand for the buffer of {result}"
                got = f"{first} and {second}; take {out} out of aliases"
                raise ValueError(self.error("aliases", expected, got))
            owners[j] = second
        names: dict[int | None, str | int] = {}
        for name in self.advanced.output_layouts:
            index = self.result_index(name)
            if index is not None and index in names:
                expected = f"one order for {self._describe_result(index)}"
                got = f"two, for {names[index]!r} and {name!r}"
                raise ValueError(self.error("output_layouts", expected, got))
            names[index] = name

    def _describe_result(self, index: int) -> str:
        """A result, for messages: by its index, and its name if it has one."""
        names = self.result_names
        name = f" ({names[index]})" if index < len(names) else ""
        return f"result {index}{name}"

    # --- What runs ------------------------------------------------------------

    @property
    def partitioned(self) -> Function | None:
        """What runs where XLA could split what a handler cannot."""
        derivatives = self.advanced.differentiate
        over_rows = derivatives.over_rows if derivatives is not None else None
        return self.advanced.partitioned or over_rows or self.reference

    @functools.cached_property
    def switch_names(self) -> frozenset[str]:
        """The names that `use_reference` accepts: full names and last parts."""
        full = (self.name, *each(self.advanced.part_of))
        return frozenset(full) | {name.rpartition(".")[2] for name in full}


def message(name: str, argument: str, expected: str, got: object) -> str:
    """The message of an error about an argument of an operation."""
    return f"{name}: {argument}: expected {expected}, got {got}"


def each(names: Any) -> tuple[Any, ...]:
    """One name or index, or several, as a tuple: "a b" are two names."""
    if isinstance(names, str):
        return tuple(names.split())
    if isinstance(names, int) or not isinstance(names, Collection):
        return (names,)
    return tuple(names)


def flatten(results: _T | tuple[_T, ...]) -> tuple[_T, ...]:
    """Results of a function as a tuple, also if there is only one."""
    return results if isinstance(results, tuple) else (results,)


def of_active(
    function: Callable[..., _T], operands: Sequence[Any], active: Sequence[int]
) -> Callable[..., _T]:
    """The function of only the `active` operands, the others being fixed."""

    def call(*values: jax.Array) -> _T:
        full = list(operands)
        for i, value in zip(active, values, strict=True):
            full[i] = value
        return function(*full)

    return call
