"""Writes the C++ of a string's derivatives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from xla_ffi_kit.strings import element_types
from xla_ffi_kit.strings.source import Place, Source

OWN = "kit_"
OF = "kit_of_"
_STRUCT = f"{OWN}string"


@dataclasses.dataclass(frozen=True)
class Body:
    """A string as a C++ struct, of which derived.h makes derivatives.

    Attributes:
      name: the name of the operation.
      before: the author's code before it.
      text: the struct's members.
      attributes: name -> C++ type.
      is_rows: whether it is called for rows, and not for elements.
    """

    name: str
    before: str
    text: str
    attributes: Mapping[str, str]
    is_rows: bool


@dataclasses.dataclass(frozen=True)
class Function:
    """A string or one of its derivatives, as a function in C++.

    Attributes:
      name: the name of the operation.
      cpp: the type of the function, "kit::RowVjp<kit_string, 1>".
      make: the C++ expression of the function.
      operands: the names of the operands.
      letters: the names of the kernel axes of each operand.
      shared: which operands all rows share.
      outs: the number of results.
      sums: which results are sums over the rows.
      is_rows: whether it is called for rows.
    """

    name: str
    cpp: str
    make: str
    operands: tuple[str, ...]
    letters: tuple[tuple[str, ...], ...]
    shared: tuple[int, ...]
    outs: int
    is_rows: bool
    sums: tuple[int, ...] = ()

    def jvp(self, active: Sequence[int]) -> Function:
        """The tangents of the results, along those of active operands."""
        count = len(self.operands)
        moving = [count + k for k, i in enumerate(active) if i in self.shared]
        return self._derived(
            "Jvp",
            active,
            [f"d_{self.operands[i]}" for i in active],
            [self.letters[i] for i in active],
            shared=(*self.shared, *moving),
            outs=self.outs,
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
            shared=(*self.shared, *(count + k for k in self.sums)),
            outs=len(active),
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

    def _derived(
        self,
        kind: str,
        active: Sequence[int],
        names: Sequence[str],
        letters: Sequence[tuple[str, ...]],
        *,
        shared: tuple[int, ...],
        outs: int,
        sums: tuple[int, ...],
    ) -> Function:
        bits = sum(1 << i for i in active)
        form = "Row" if self.is_rows else "Element"
        cpp = f"kit::{form}{kind}<{self.cpp}, {bits}u>"
        unique: list[str] = []
        for name in names:
            while name in self.operands:
                name += "_"
            unique.append(name)
        return Function(
            name=f"{self.name}.{kind.lower()}{bits}",
            cpp=cpp,
            make=f"{cpp}{{{self.make}}}",
            operands=(*self.operands, *unique),
            letters=(*self.letters, *letters),
            shared=shared,
            outs=outs,
            is_rows=self.is_rows,
            sums=sums,
        )


def own(
    body: Body,
    operands: Sequence[str],
    axes: Sequence[int],
    shared: Sequence[int],
    outs: int,
) -> Function:
    """The string itself."""
    members = ", ".join(f"{OF}{name}" for name in body.attributes)
    return Function(
        name=body.name,
        cpp=_STRUCT,
        make=f"{_STRUCT}{{{members}}}",
        operands=tuple(operands),
        letters=tuple(
            tuple(f"x{i}_{j}" for j in range(count))
            for i, count in enumerate(axes)
        ),
        shared=tuple(shared),
        outs=outs,
        is_rows=body.is_rows,
    )


def source(
    body: Body, function: Function, dtypes: Sequence[str], place: Place | None
) -> Source:
    """The file to compile for a derivative."""
    count = len(function.operands)
    parameters = [
        *(f"kit::In<T> {OWN}in{i}" for i in range(count)),
        *(f"{type} {OF}{name}" for name, type in body.attributes.items()),
        *(f"kit::Out<T> {OWN}out{i}" for i in range(function.outs)),
        f"kit::Threads {OWN}threads",
    ]
    if body.is_rows:
        lines = _rows(function)
    else:
        lines = _elements(function)
    here = Place(f"<derivative of {body.name}>", 1)
    members = "".join(f"{t} {OF}{n};\n" for n, t in body.attributes.items())
    code = (
        f"{body.before}\n{here.directive()}"
        '#include "xla_ffi/inline/differentiate.h"\n'
        f"struct {_STRUCT} {{\n{members}{body.text}}};\n"
        "template <typename T>\n"
        f"void {OWN}derivative({', '.join(parameters)}) {{\n"
        f"const {function.cpp} {OWN}function = {function.make};\n"
        f"{lines}}}\n"
    )
    return Source(
        name=function.name,
        code=code,
        function=f"{OWN}derivative",
        instances=element_types.template_arguments(body.name, dtypes),
        operands=function.operands,
        attributes=tuple(body.attributes),
        place=place or here,
        including='pass before="{}"',
    )


def _elements(function: Function) -> str:
    ins = ", ".join(f"{OWN}in{i}.data()" for i in range(len(function.operands)))
    outs = ", ".join(f"{OWN}out{i}.data()" for i in range(function.outs))
    return (
        f"kit::DeriveElements<T>({OWN}function, {OWN}threads, "
        f"{OWN}in0.size(), {{{ins}}}, {{{outs}}});\n"
    )


def _rows(function: Function) -> str:
    count = len(function.operands)
    first = next(i for i in range(count) if i not in function.shared)
    ins = ", ".join(f"kit::SharedRow({OWN}in{i})" for i in range(count))
    outs = ", ".join(
        f"kit::SharedRow({OWN}out{i})" for i in range(function.outs)
    )
    axes = len(function.letters[first])
    bits = [sum(1 << i for i in of) for of in (function.shared, function.sums)]
    return (
        f"const int64_t {OWN}rows = {OWN}in{first}.Product("
        f"{OWN}in{first}.rank() - {axes});\n"
        f"kit::DeriveRows<{bits[0]}u, {bits[1]}u, T>({OWN}function, "
        f"{OWN}threads, {OWN}rows, {{{ins}}}, {{{outs}}});\n"
    )
