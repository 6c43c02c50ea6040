"""A string, or one of its derivatives, as a function in C++."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from xla_ffi_kit.library.signature import Signature
from xla_ffi_kit.primitive.spec import AttributeType
from xla_ffi_kit.strings.source import Source

OWN = "kit_"
OF = "kit_of_"
STRUCT = f"{OWN}string"


class Body(Protocol):
    """A string of which derived.h makes derivatives."""

    @property
    def name(self) -> str:
        """The name of the operation."""

    def source(self, function: Function) -> Source:
        """The file to compile for a derivative."""

    def dtypes(self, function: Function) -> list[str | tuple[str, ...]]:
        """The dtypes of the operands of a derivative, as `FfiOp` takes them."""

    def explained(self, error: str) -> str:
        """A compiler's error in a derivative, with the remedy."""


Attributes: TypeAlias = Mapping[str, AttributeType]
# A string and its function, given its handler's signature and the types of its
# attributes; None if it takes no floats.
Find: TypeAlias = Callable[
    [Signature | None, Attributes], "tuple[Body, Function] | None"
]


@dataclasses.dataclass(frozen=True)
class Function:
    """A string or one of its derivatives, as a function in C++.

    Attributes:
      name: the name of the operation.
      cpp: the type of the function, "kit::RowVjp<kit_string, 1>".
      make: the C++ expression of the function.
      form: what it is called for.
      operands: the names of the operands.
      letters: the names of the kernel axes of each operand.
      shared: which operands all rows share.
      numbers: which operands are floats: it has no others in C++.
      like: of which of the string's arrays each operand has the dtype; the
        results come after the operands.
      outs_like: the same of the results.
      out_axes: the number of kernel axes of each result of a derivative.
      sums: which results are sums over the rows.
      active: the operands towards which it is differentiated.
    """

    name: str
    cpp: str
    make: str
    form: Literal["Element", "Row"]
    operands: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    shared: tuple[int, ...]
    numbers: tuple[int, ...]
    like: tuple[int, ...]
    outs_like: tuple[int, ...]
    out_axes: tuple[int, ...] = ()
    sums: tuple[int, ...] = ()
    active: tuple[int, ...] = ()

    @property
    def outs(self) -> int:
        """The number of results."""
        return len(self.outs_like)

    def jvp(
        self, active: Sequence[int], result_axes: Sequence[int]
    ) -> Function:
        """The tangents of the results, along those of active operands."""
        count = len(self.operands)
        moving = [count + k for k, i in enumerate(active) if i in self.shared]
        return self._derived(
            "Jvp",
            active,
            [f"d_{self.operands[i]}" for i in active],
            [self.letters[i] for i in active],
            [self.like[i] for i in active],
            shared=(*self.shared, *moving),
            outs_like=self.outs_like,
            out_axes=tuple(result_axes),
            sums=self.sums,
        )

    def vjp(
        self, active: Sequence[int], result_axes: Sequence[int]
    ) -> Function:
        """The cotangents of active operands, from those of the results."""
        count = len(self.operands)  # and names that no operand has
        letters = [
            tuple(f"x{count + k}_{j}" for j in range(axes))
            for k, axes in enumerate(result_axes)
        ]
        return self._derived(
            "Vjp",
            active,
            [f"ct{k}" for k in range(self.outs)],
            letters,
            self.outs_like,
            shared=(*self.shared, *(count + k for k in self.sums)),
            outs_like=tuple(self.like[i] for i in active),
            out_axes=tuple(len(self.letters[i]) for i in active),
            sums=tuple(k for k, i in enumerate(active) if i in self.shared),
        )

    def without_shared(self) -> Function:
        """The same with rows of their own for shared operands."""
        return dataclasses.replace(
            self, name=f"{self.name}_rows", shared=(), sums=()
        )

    def axes(self) -> str:
        """The axes of the operands, as `FfiOp` takes them."""
        return ",".join(f"({','.join(own)})" for own in self.letters) + "->"

    def bits(self, operands: Sequence[int]) -> int:
        """Operands as bits in C++, which knows floats alone."""
        places = map(self.numbers.index, set(operands) & set(self.numbers))
        return sum(1 << place for place in places)

    def first_with_rows(self) -> int | None:
        """The first operand that is not shared."""
        every = range(len(self.operands))
        return next((i for i in every if i not in self.shared), None)

    def _derived(
        self,
        kind: str,
        active: Sequence[int],
        names: Sequence[str],
        letters: Sequence[tuple[str, ...]],
        like: Sequence[int],
        *,
        shared: tuple[int, ...],
        outs_like: tuple[int, ...],
        out_axes: tuple[int, ...],
        sums: tuple[int, ...],
    ) -> Function:
        count = len(self.operands)
        cpp = f"kit::{self.form}{kind}<{self.cpp}, {self.bits(active)}u>"
        unique: list[str] = []
        for name in names:
            while name in self.operands:
                name += "_"
            unique.append(name)
        bits = sum(1 << i for i in active)
        return Function(
            name=f"{self.name}.{kind.lower()}{bits}",
            cpp=cpp,
            make=f"{cpp}{{{self.make}}}",
            form=self.form,
            operands=(*self.operands, *unique),
            letters=(*self.letters, *letters),
            shared=shared,
            numbers=(*self.numbers, *range(count, count + len(names))),
            like=(*self.like, *like),
            outs_like=outs_like,
            out_axes=out_axes,
            sums=sums,
            active=(*self.active, *active),
        )


def own(
    name: str,
    cpp: str,
    make: str,
    form: Literal["Element", "Row"],
    operands: Sequence[str],
    axes: Sequence[int],
    shared: Sequence[int],
    numbers: Sequence[int],
    outs_like: Sequence[int],
) -> Function:
    """The string itself."""
    return Function(
        name=name,
        cpp=cpp,
        make=make,
        form=form,
        operands=tuple(operands),
        letters=tuple(
            tuple(f"x{i}_{j}" for j in range(count))
            for i, count in enumerate(axes)
        ),
        shared=tuple(shared),
        numbers=tuple(numbers),
        like=tuple(range(len(operands))),
        outs_like=tuple(outs_like),
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
