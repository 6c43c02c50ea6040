"""Writes the C++ of the derivatives of `rows` and `elementwise`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from xla_ffi_kit.strings.derive import derivatives
from xla_ffi_kit.strings.derive import function as derivative_function
from xla_ffi_kit.strings.derive.function import DifferentiableCode, Find
from xla_ffi_kit.strings.text import element_types, loops, remedies
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.loops import Elements, Parameters, Rows
from xla_ffi_kit.strings.text.source import (
    OF,
    OWN,
    ROW_BY_ROW,
    STACK_FLAGS,
    STRUCT,
    Place,
    Source,
)


@dataclasses.dataclass(frozen=True)
class LoopBody:
    """The code for an element or a row, as members of a C++ struct.

    Attributes:
      name: the name of the operation.
      before: the author's code before it.
      place: where that comes from.
      text: the struct's members.
      attributes: name -> C++ type.
      floats: the names of the dtypes of floats for which it is compiled.
      rows: the code for a row; None if it is called for elements.
      lanes: whether rows may be computed in lanes.
    """

    name: str
    before: str
    place: Place | None
    text: str
    attributes: Mapping[str, str]
    floats: Sequence[str]
    rows: Rows | None
    lanes: bool

    def code_of(
        self,
        operands: Sequence[str],
        axes: Sequence[int],
        shared: Sequence[int],
        outs: int,
    ) -> DifferentiableCode:
        """The string itself."""
        members = ", ".join(f"{OF}{name}" for name in self.attributes)
        count = len(operands)
        return derivative_function.of_string(
            self.name,
            STRUCT,
            f"{STRUCT}{{{members}}}",
            "Element" if self.rows is None else "Row",
            operands,
            axes,
            shared,
            numbers=range(count),
            outs_like=range(count, count + outs),
        )

    def dtypes(
        self, function: DifferentiableCode
    ) -> list[str | tuple[str, ...]]:
        """All operands have one dtype."""
        return list(self.floats)

    def with_remedy(self, error: str) -> str:
        """A compiler's error in a derivative, with the remedy."""
        return remedies.of_slopes(error, "A")

    @property
    def _here(self) -> Place:
        return Place(f"<derivative of {self.name}>", 1)

    def struct(self, attributes: Mapping[str, str]) -> str:
        """The author's code as a struct, with attributes of these types."""
        members = "".join(f"{t} {OF}{n};\n" for n, t in attributes.items())
        place = self.place.directive() if self.place else ""
        return (
            f"{place}{self.before}\n{self._here.directive()}"
            f"struct {STRUCT} {{\n{members}{self.text}}};\n"
        )

    def source(self, function: DifferentiableCode) -> Source:
        """The file to compile for a derivative."""
        header = "derived_lanes.h" if self.lanes else "differentiate.h"
        parameters = derivative_function.parameters(
            ["T"] * len(function.operands),
            self.attributes,
            ["T"] * len(function.outs),
        )
        code = (
            f"{self.struct(self.attributes)}"
            "template <typename T>\n"
            f"void {OWN}derivative({', '.join(parameters)}, "
            f"kit::Threads {OWN}threads) {{\n"
            f"const {function.cpp} {OWN}function = {function.make};\n"
            f"{self._loop(function)}}}\n"
        )
        source = Source(
            name=function.name,
            code=code,
            function=f"{OWN}derivative",
            flags=STACK_FLAGS,
            instances=element_types.template_arguments(self.name, self.floats),
            operands=function.names,
            attributes=tuple(self.attributes),
            place=self._here,
            header=f"xla_ffi/strings/derive/{header}",
            including='pass before="{}"',
            how="one call for all rows" if self.rows is None else ROW_BY_ROW,
        )
        return loops.in_lanes(source) if self.lanes else source

    def _loop(self, function: DifferentiableCode) -> str:
        if self.rows is None:
            return _elements(function)
        return _rows(function, self.lanes)


def of_elements(code: Elements, dtypes: DTypes) -> Find:
    """The expressions of `elementwise`, to be differentiated."""
    parameters = code.parameters
    lines = [
        "template <typename T>",
        f"void operator()(const T* {OWN}in, T* {OWN}out) const {{",
        "using A = T;",
        *parameters.attribute_values("kit::Plain<A>"),
        *code.body(f"{OWN}in[{{i}}]", f"{OWN}out[{{i}}]", parameters.here()),
        "}",
    ]
    body = _body(code, lines, dtypes)
    none = [0] * len(parameters.operands)
    function = body.code_of(
        parameters.operands, none, (), len(parameters.results)
    )
    return lambda *_: (body, function)


def of_rows(
    code: Rows,
    dtypes: DTypes,
    lanes: bool,
    aliases: Mapping[str, str | int],
) -> Find:
    """The code of `rows`, to be differentiated."""
    parameters = code.parameters
    lines = [
        *code.members(_in_place(parameters, aliases), lanes),
        # All operands of a derivative are numbers with slopes.
        "template <typename T>",
        f"void operator()(const kit::Row<const T>* {OWN}in, "
        f"const kit::Row<T>* {OWN}out) const {{",
        f"(*this)({OWN}in, {OWN}in, {OWN}out);",
        "}",
    ]
    body = _body(code, lines, dtypes, lanes)
    function = body.code_of(
        parameters.operands,
        code.kernel_axes,
        code.shared,
        len(parameters.results),
    )
    return lambda *_: (body, function)


def _in_place(
    parameters: Parameters, aliases: Mapping[str, str | int]
) -> dict[str, str]:
    """The rows of operands that are where results are."""
    results = {
        operand: k if isinstance(k, int) else parameters.results.index(k)
        for operand, k in aliases.items()
    }
    return {
        name: f"kit::InPlace({OWN}in[{i}], {OWN}out[{results[name]}])"
        for i, name in enumerate(parameters.operands)
        if name in results
    }


def _body(
    code: Elements | Rows,
    lines: Sequence[str],
    dtypes: DTypes,
    lanes: bool = False,
) -> LoopBody:
    parameters = code.parameters
    name = parameters.name
    counts = (
        f"static constexpr int kIns = {len(parameters.operands)}, "
        f"kOuts = {len(parameters.results)};"
    )
    names = [entry[0].name for entry in element_types.instances(name, dtypes)]
    return LoopBody(
        name=name,
        before=code.before,
        place=code.before_place,
        text="\n".join([counts, *lines]) + "\n",
        attributes=parameters.attributes,
        floats=list(filter(derivatives.is_float, names)),
        rows=code if isinstance(code, Rows) else None,
        lanes=lanes,
    )


def _elements(function: DifferentiableCode) -> str:
    ins = ", ".join(f"{OWN}in{i}.data()" for i in range(len(function.operands)))
    outs = ", ".join(f"{OWN}out{i}.data()" for i in range(len(function.outs)))
    return (
        f"kit::DeriveElements<T>({OWN}function, {OWN}threads, "
        f"{OWN}in0.size(), {{{ins}}}, {{{outs}}});\n"
    )


def _rows(function: DifferentiableCode, in_lanes: bool) -> str:
    count = len(function.operands)
    first = function.first_with_rows()
    assert first is not None
    ins = ", ".join(f"kit::SharedRow({OWN}in{i})" for i in range(count))
    outs = ", ".join(
        f"kit::SharedRow({OWN}out{i})" for i in range(len(function.outs))
    )
    sums = sum(1 << k for k in function.sums)
    make = f"[&](int64_t) -> const auto& {{ return {OWN}function; }}"
    run = "DeriveRows"
    if in_lanes:
        make, run = f"{OWN}function", "DeriveRowsInLanes"
    return (
        f"const int64_t {OWN}rows = {OWN}in{first}.Product("
        f"{OWN}in{first}.rank() - {len(function.operands[first].letters)});\n"
        f"kit::{run}<{function.bits(function.shared)}u, {sums}u, T>({make}, "
        f"{OWN}threads, {OWN}rows, {{{ins}}}, {{{outs}}});\n"
    )
