"""A string, or one of its derivatives, as a function in C++."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from xla_ffi_kit.library.signature import Signature
from xla_ffi_kit.op.spec import AttributeType
from xla_ffi_kit.strings.text.source import OF, OWN, Source


class Body(Protocol):
    """A string of which derived.h makes derivatives."""

    @property
    def name(self) -> str:
        """The name of the operation."""

    @property
    def lanes(self) -> bool:
        """Whether rows may be computed in lanes."""

    def source(self, function: DifferentiableCode) -> Source:
        """The file to compile for a derivative."""

    def dtypes(
        self, function: DifferentiableCode
    ) -> list[str | tuple[str, ...]]:
        """The dtypes of the operands of a derivative, as `FfiOp` takes them."""

    def with_remedy(self, error: str) -> str:
        """A compiler's error in a derivative, with the remedy."""


Attributes: TypeAlias = Mapping[str, AttributeType]
# A string and its function, from its handler's signature and the types of its
# attributes; None if it takes no floats.
Find: TypeAlias = Callable[
    [Signature | None, Attributes], "tuple[Body, DifferentiableCode] | None"
]


@dataclasses.dataclass(frozen=True)
class Operand:
    """An operand of a function.

    Attributes:
      name: its name.
      letters: the names of its kernel axes.
      like: of which of the string's arrays it has the dtype; the results come
        after the operands.
      is_number: whether it is one of floats: there are no others in C++.
      is_shared: whether all rows share it.
      is_active: whether the function was differentiated towards it.
    """

    name: str
    letters: tuple[str, ...]
    like: int
    is_number: bool = True
    is_shared: bool = False
    is_active: bool = False


@dataclasses.dataclass(frozen=True)
class Out:
    """A result of a function.

    Attributes:
      like: of which of the string's arrays it has the dtype.
      axes: the number of its kernel axes; None for the string itself.
      is_sum: whether it is a sum over the rows.
    """

    like: int
    axes: int | None = None
    is_sum: bool = False


@dataclasses.dataclass(frozen=True)
class DifferentiableCode:
    """A string or one of its derivatives, as a function in C++.

    Attributes:
      name: the name of the operation.
      cpp: the type of the function, "kit::RowVjp<kit_string, 1>".
      make: the C++ expression of the function.
      form: what it is called for.
      operands: the operands.
      outs: the results.
    """

    name: str
    cpp: str
    make: str
    form: Literal["Element", "Row"]
    operands: tuple[Operand, ...]
    outs: tuple[Out, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the operands."""
        return tuple(x.name for x in self.operands)

    @property
    def shared(self) -> list[int]:
        """The operands that all rows share."""
        return [i for i, x in enumerate(self.operands) if x.is_shared]

    @property
    def numbers(self) -> list[int]:
        """The operands that are floats."""
        return [i for i, x in enumerate(self.operands) if x.is_number]

    @property
    def sums(self) -> list[int]:
        """The results that are sums over the rows."""
        return [k for k, y in enumerate(self.outs) if y.is_sum]

    def jvp(
        self, active: Sequence[int], result_axes: Sequence[int]
    ) -> DifferentiableCode:
        """The tangents of the results, along those of active operands."""
        moving = [
            dataclasses.replace(x, name=f"d_{x.name}", is_active=False)
            for x in (self.operands[i] for i in active)
        ]
        outs = [
            dataclasses.replace(y, axes=axes)
            for y, axes in zip(self.outs, result_axes, strict=True)
        ]
        return self._derived("Jvp", active, moving, outs)

    def vjp(
        self, active: Sequence[int], result_axes: Sequence[int]
    ) -> DifferentiableCode:
        """The cotangents of active operands, from those of the results."""
        count = len(self.operands)  # and names that no operand has
        moving = [
            Operand(
                name=f"ct{k}",
                letters=tuple(f"x{count + k}_{j}" for j in range(axes)),
                like=y.like,
                is_shared=y.is_sum,
            )
            for k, (y, axes) in enumerate(
                zip(self.outs, result_axes, strict=True)
            )
        ]
        outs = [
            Out(x.like, len(x.letters), is_sum=x.is_shared)
            for x in (self.operands[i] for i in active)
        ]
        return self._derived("Vjp", active, moving, outs)

    def jacobian(
        self, active: Sequence[int], result_axes: Sequence[int], count: int
    ) -> DifferentiableCode:
        """The results, and of each its Jacobian towards each active operand.

        Args:
          active: the operands.
          result_axes: the number of kernel axes of each result.
          count: how many numbers the operands of a row have together, if all
            slopes are computed in one pass; 0 for one result of one number.
        """
        outs = [
            dataclasses.replace(y, axes=axes)
            for y, axes in zip(self.outs, result_axes, strict=True)
        ]
        blocks = [
            Out(x.like, axes=2)
            for _ in result_axes
            for x in (self.operands[i] for i in active)
        ]
        kind, slots = ("Jacobian", f", {count}") if count else ("Gradient", "")
        return self._derived(kind, active, [], [*outs, *blocks], slots)

    def without_shared(self) -> DifferentiableCode:
        """The same with rows of their own for shared operands."""
        return dataclasses.replace(
            self,
            name=f"{self.name}_rows",
            operands=tuple(
                dataclasses.replace(x, is_shared=False) for x in self.operands
            ),
            outs=tuple(dataclasses.replace(y, is_sum=False) for y in self.outs),
        )

    def axes(self) -> str:
        """The axes of the operands, as `FfiOp` takes them."""
        axes = (f"({','.join(x.letters)})" for x in self.operands)
        return ",".join(axes) + "->"

    def bits(self, operands: Sequence[int]) -> int:
        """Operands as bits in C++, which knows floats alone."""
        places = map(self.numbers.index, set(operands) & set(self.numbers))
        return sum(1 << place for place in places)

    def first_with_rows(self) -> int | None:
        """The first operand that is not shared."""
        operands = enumerate(self.operands)
        return next((i for i, x in operands if not x.is_shared), None)

    def _derived(
        self,
        kind: str,
        active: Sequence[int],
        moving: Sequence[Operand],
        outs: Sequence[Out],
        slots: str = "",
    ) -> DifferentiableCode:
        bits = f"{self.bits(active)}u{slots}"
        cpp = f"kit::{self.form}{kind}<{self.cpp}, {bits}>"
        operands = [
            dataclasses.replace(x, is_active=x.is_active or i in active)
            for i, x in enumerate(self.operands)
        ]
        for x in moving:
            name = x.name
            while name in self.names:
                name += "_"
            operands.append(dataclasses.replace(x, name=name))
        which = "_".join(map(str, [sum(1 << i for i in active), *slots[2:]]))
        return DifferentiableCode(
            name=f"{self.name}.{kind.lower()}{which}",
            cpp=cpp,
            make=f"{cpp}{{{self.make}}}",
            form=self.form,
            operands=tuple(operands),
            outs=tuple(outs),
        )


def of_string(
    name: str,
    cpp: str,
    make: str,
    form: Literal["Element", "Row"],
    operands: Sequence[str],
    axes: Sequence[int],
    shared: Sequence[int],
    numbers: Sequence[int],
    outs_like: Sequence[int],
) -> DifferentiableCode:
    """The string itself."""
    return DifferentiableCode(
        name=name,
        cpp=cpp,
        make=make,
        form=form,
        operands=tuple(
            Operand(
                name=operand,
                letters=tuple(f"x{i}_{j}" for j in range(count)),
                like=i,
                is_number=i in numbers,
                is_shared=i in shared,
            )
            for i, (operand, count) in enumerate(
                zip(operands, axes, strict=True)
            )
        ),
        outs=tuple(map(Out, outs_like)),
    )


def parameters(
    operands: Sequence[str],
    attributes: Mapping[str, str],
    results: Sequence[str],
) -> list[str]:
    """The parameters of a derivative, of the types of elements."""
    return [
        *(f"kit::In<{type_}> {OWN}in{i}" for i, type_ in enumerate(operands)),
        *(f"{type_} {OF}{name}" for name, type_ in attributes.items()),
        *(f"kit::Out<{type_}> {OWN}out{k}" for k, type_ in enumerate(results)),
    ]
