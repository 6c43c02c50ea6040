"""Writes the C++ of the derivatives of a function of `inline`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings.derive import function as derivative_function
from xla_ffi_kit.strings.derive.function import DifferentiableCode
from xla_ffi_kit.strings.text import remedies
from xla_ffi_kit.strings.text.source import (
    OF,
    OWN,
    STACK_FLAGS,
    STRUCT,
    Place,
    Source,
)


@dataclasses.dataclass(frozen=True)
class Instance:
    """A function of a template, which takes floats.

    Attributes:
      arguments: the C++ types that are the template's arguments.
      dtypes: the dtypes of the operands, and then of the results.
      types: the same in C++.
    """

    arguments: tuple[str, ...]
    dtypes: tuple[str, ...]
    types: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class InlineBody:
    """A function template of whole arrays.

    Attributes:
      code: the source of the function.
      attributes: name -> C++ type.
      instances: the functions that take floats, of which all take them as the
        same operands and results.
      floats: which operands, and then results, these are.
      outs: the number of results.
      aliases: operand -> the result in its place.
    """

    code: Source
    attributes: Mapping[str, str]
    instances: tuple[Instance, ...]
    floats: tuple[int, ...]
    outs: int
    aliases: Mapping[int, int]

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.code.name

    @property
    def lanes(self) -> bool:
        """The author's function takes one row."""
        return False

    @property
    def hidden(self) -> list[int]:
        """The results that are no floats, which derivatives do not have."""
        ends = range(self._ins, self._ins + self.outs)
        return [k for k, i in enumerate(ends) if i not in self.floats]

    @property
    def _ins(self) -> int:
        return len(self.code.operands)

    def code_of(
        self, axes: Sequence[int], shared: Sequence[int]
    ) -> DifferentiableCode:
        """The function itself."""
        return derivative_function.of_string(
            self.name,
            self._type(),
            f"{OWN}of_row({OWN}i)",
            "Row",
            self.code.operands,
            axes,
            shared,
            numbers=[i for i in self.floats if i < self._ins],
            outs_like=[i for i in self.floats if i >= self._ins],
        )

    def dtypes(
        self, function: DifferentiableCode
    ) -> list[str | tuple[str, ...]]:
        """The dtypes of the operands of a derivative, for each instance."""
        like = [x.like for x in function.operands]
        dtypes = [
            tuple(instance.dtypes[i] for i in like)
            for instance in self.instances
        ]
        return list(dict.fromkeys(dtypes))

    def with_remedy(self, error: str) -> str:
        """A compiler's error in a derivative, with the remedy."""
        return remedies.of_slopes(error, "kit::Accumulate<T>")

    def source(self, function: DifferentiableCode) -> Source:
        """The file to compile for a derivative."""
        types = self._template("b")
        shapes = {f"{OWN}shape{k}": "kit::Array<int64_t>" for k in self.hidden}
        attributes = {**self.attributes, **shapes}
        parameters = derivative_function.parameters(
            [types[x.like] for x in function.operands],
            attributes,
            [types[y.like] for y in function.outs],
        )
        here = Place(f"<derivative of {self.name}>", 1)
        both = ", ".join(
            f"typename {t}" for t in (*self._template("t"), *types)
        )
        code = (
            '#include "xla_ffi/strings/function.h"\n'
            f"{self.code.place.directive()}{self.code.code}\n"
            f"{here.directive()}{self._struct()}"
            f"template <{both}>\n"
            f"void {OWN}derivative({', '.join(parameters)}, "
            f"kit::Threads {OWN}threads) {{\n"
            f"{self._run(function)}}}\n"
        )
        return Source(
            name=function.name,
            code=code,
            function=f"{OWN}derivative",
            flags=STACK_FLAGS,
            instances=[
                ", ".join((*instance.arguments, *instance.types))
                for instance in self.instances
            ],
            operands=function.names,
            attributes=tuple(attributes),
            place=here,
        )

    def _type(self) -> str:
        """The struct of the author's function."""
        return f"{STRUCT}<{', '.join(self._template('t'))}>"

    def _template(self, letter: str) -> list[str]:
        """Names of types: the template's arguments ("t"), those of arrays."""
        first = self.instances[0]
        types = first.arguments if letter == "t" else first.types
        return [f"{OWN}{letter}{i}" for i in range(len(types))]

    def _called(self, number: str) -> str:
        """The author's function, for numbers of a type."""
        arguments = (
            f"kit::NumberFor<{t}, {number}>" for t in self._template("t")
        )
        return f"&{self.code.function}<{', '.join(arguments)}>"

    def _struct(self) -> str:
        """The function as one of rows of floats, in derived.h's sense."""
        ins = sum(1 << i for i in self.floats if i < self._ins)
        outs = sum(1 << i - self._ins for i in self.floats if i >= self._ins)
        base = ", ".join(
            [f"{ins}u, {outs}u", f"{self._ins}, {self.outs}"]
            + list(self.attributes.values())
        )
        arguments = ", ".join(f"typename {t}" for t in self._template("t"))
        return (
            f"template <{arguments}>\n"
            f"struct {STRUCT} : kit::FunctionOfArrays<{base}> {{\n"
            "template <typename T>\n"
            f"void operator()(const kit::Row<const T>* {OWN}in, "
            f"const kit::Row<T>* {OWN}out) const {{\n"
            f"this->Call({self._called('T')}, {OWN}in, {OWN}out);\n"
            "}\n};\n"
        )

    def _run(self, function: DifferentiableCode) -> str:
        types = self._template("b")
        floats = ", ".join(types[i] for i in self.floats)
        first = function.first_with_rows()
        rows = "1"
        if first is not None:
            rows = f"{OWN}in{first}.Product({_lead(function, first)})"
        outs = range(len(function.outs))
        wide_ins = ", ".join(f"{OWN}wide{i}.row()" for i in function.numbers)
        wide_outs = ", ".join(f"{OWN}new{k}.row()" for k in outs)
        sums = sum(1 << k for k in function.sums)
        lines = [
            *self._checks(function),
            f"using {OWN}scalar = kit::Widest<{floats}>;",
            f"const auto {OWN}of_row = [&](int64_t {OWN}i) {{",
            f"return {self._type()}{{{{{self._parts(function)}}}}};",
            "};",
            *(
                f"const kit::WideIn<{OWN}scalar, {types[x.like]}> "
                f"{OWN}wide{i}({OWN}in{i});"
                for i, x in enumerate(function.operands)
                if x.is_number
            ),
            *(
                f"const kit::WideOut<{OWN}scalar, {types[y.like]}> "
                f"{OWN}new{k}({OWN}out{k});"
                for k, y in enumerate(function.outs)
            ),
            f"kit::DeriveRows<{function.bits(function.shared)}u, {sums}u, "
            f"{OWN}scalar>([&](int64_t {OWN}i) {{ return {function.make}; }}, "
            f"{OWN}threads, {rows}, {{{wide_ins}}}, {{{wide_outs}}});",
            *(f"{OWN}new{k}.Write();" for k in outs),
        ]
        return "\n".join(lines) + "\n"

    def _parts(self, function: DifferentiableCode) -> str:
        """What a row's call of the author's function has."""
        operands = [_part(function, i) for i in range(self._ins)]
        results = [
            self._shape(function, self._ins + k) for k in range(self.outs)
        ]
        aliases = [str(self.aliases.get(i, -1)) for i in range(self._ins)]
        types = ", ".join(self.attributes.values())
        attributes = ", ".join(f"{OF}{name}" for name in self.attributes)
        groups = [", ".join(group) for group in (operands, results, aliases)]
        braced = ", ".join(f"{{{group}}}" for group in groups)
        return f"{braced}, std::tuple<{types}>({attributes})"

    def _shape(self, function: DifferentiableCode, like: int) -> str:
        """The shape of a result, which some array of a derivative has."""
        if like not in self.floats:
            return f"kit::ShapeOf({OF}{OWN}shape{like - self._ins})"
        for i, x in enumerate(function.operands):
            if x.like == like:
                return _part(function, i)
        k, axes = next(
            (k, y.axes) for k, y in enumerate(function.outs) if y.like == like
        )
        lead = f"{OWN}out{k}.rank() - {axes}"
        return f"kit::PartOf({OWN}out{k}, {lead}, 0)"

    def _checks(self, function: DifferentiableCode) -> list[str]:
        """Refuses operands that are floats whatever the template is for."""
        number = "kit::Dual<float, 1>"
        called = f"decltype({self._called(number)})"
        return [
            f"static_assert(kit::kTakesNumber<{called}, {i}>, "
            f'"operand {self.code.operands[i]}: expected kit::In<T> of a '
            "type that dtypes names, as the derivative with respect to it is "
            'wanted, got kit::In of another type");'
            for i, x in enumerate(function.operands[: self._ins])
            if x.is_active
        ]


def _lead(function: DifferentiableCode, i: int) -> str:
    """How many batch axes an operand has."""
    return f"{OWN}in{i}.rank() - {len(function.operands[i].letters)}"


def _part(function: DifferentiableCode, i: int) -> str:
    """An operand's part of a row, or all of one that rows share."""
    row = "0" if function.operands[i].is_shared else f"{OWN}i"
    return f"kit::PartOf({OWN}in{i}, {_lead(function, i)}, {row})"


def refuse(name: str, expected: str, got: object) -> BuildError:
    """The error of a function that cannot be differentiated."""
    return BuildError(f"{name}: derivatives: expected {expected}, got {got}")
