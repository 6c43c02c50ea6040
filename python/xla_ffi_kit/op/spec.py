"""`OpSpec`: what an operation is, as data that all of the kit reads."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar, get_args

import jax

from xla_ffi_kit._check import Typed
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.library.handler_library import HandlerLibrary

_T = TypeVar("_T")
Arrays: TypeAlias = tuple[jax.Array, ...]
Result: TypeAlias = jax.Array | Arrays
# Returns the cotangents of the linear operands; None for one not wanted.
Transpose: TypeAlias = Callable[
    ..., jax.Array | Sequence[jax.Array | None] | None
]
# Of the reference's signature: operands positional, attributes by keyword.
Function: TypeAlias = Callable[..., Result]
# Bytes, from the types of the operands and the attributes by keyword.
Workspace: TypeAlias = Callable[..., int]
# What an attribute may be declared as: a dtype, the type `str`, a dtype in a
# one-tuple for an array, or a mapping for a dictionary.
AttributeType: TypeAlias = DType | tuple[DType] | Mapping[str, "AttributeType"]
VmapMethod = Literal["broadcast_all", "expand_dims", "sequential"]
ShardedKernelAxes = Literal["error", "gather"]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class OpSpec:
    """What an operation is; `FfiOp` says what each field means."""

    name: str
    reference: Function
    operand_names: tuple[str, ...]
    kernel_axes: tuple[int, ...]
    handlers: Mapping[str, str | Function]
    if_registered: bool  # the handlers may be missing
    libraries: tuple[HandlerLibrary, ...]
    check: Callable[..., None] | None
    jvp: Callable[..., tuple[Result, Result]] | None
    linear: tuple[int, ...]
    transpose: Transpose | None
    shared: tuple[int, ...]
    shared_results: tuple[int, ...]
    batches_shared: bool
    partitioned: Function
    aliases: Mapping[int, int]
    has_side_effect: bool
    vmap_method: VmapMethod
    sharded_kernel_axes: ShardedKernelAxes
    part_of: tuple[str, ...]
    workspace: Mapping[str, Workspace]

    def __post_init__(self) -> None:
        """Raises ValueError where the fields contradict each other."""
        count = len(self.operand_names)
        if len(self.kernel_axes) != count:
            raise ValueError(
                f"{self.name}: kernel_axes: expected {count} numbers, one per "
                f"operand of the reference, got {len(self.kernel_axes)}"
            )
        if any(axes < 0 for axes in self.kernel_axes):
            raise ValueError(
                f"{self.name}: kernel_axes: expected numbers >= 0, got "
                f"{self.kernel_axes}"
            )
        for what, got, known in (
            ("vmap_method", self.vmap_method, get_args(VmapMethod)),
            (
                "sharded_kernel_axes",
                self.sharded_kernel_axes,
                get_args(ShardedKernelAxes),
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
        for platform in self.workspace:
            if not isinstance(self.handlers.get(platform), str):
                raise ValueError(
                    f"{self.name}: workspace: expected platforms with a "
                    f"handler, got {platform!r}"
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

    @functools.cached_property
    def switch_names(self) -> frozenset[str]:
        """What `use_reference` knows it by: full names and last parts."""
        full = (self.name, *self.part_of)
        return frozenset(full) | {name.rpartition(".")[2] for name in full}

    def own_axes(self, index: int, operand: Typed) -> int:
        """How many batch axes an operand has."""
        return len(operand.shape) - self.kernel_axes[index]

    def depth(self, operands: Sequence[Typed]) -> int:
        """How many of the first batch axes some shared operand has."""
        own = (self.own_axes(i, operands[i]) for i in self.shared)
        return max(own, default=0)


def flatten(results: _T | tuple[_T, ...]) -> tuple[_T, ...]:
    """Results of a reference as a tuple, also if there is only one."""
    return results if isinstance(results, tuple) else (results,)
