"""Writes the C++ around the code of `elementwise` and `rows`.

A loop over elements is written out. The code for a row is a member of a struct,
which the loops of xla_ffi/strings/rows.h and lane_rows.h, and those of its
derivatives, call for each row.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence

from xla_ffi_kit import _check
from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.op.spec import AttributeType
from xla_ffi_kit.strings.text import element_types, references, remedies
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.source import (
    LANES,
    LANES_FLAGS,
    OF,
    OWN,
    ROW_BY_ROW,
    STRUCT,
    Place,
    Source,
)

_NEW = f"{OWN}new_"  # a value to write, before the name of its result
_RESERVED_NAMES = {
    "T": "the type of the arrays",
    "A": "the type to compute in",
    "kit": "the namespace of the kit",
    "std": "the namespace of C++'s library",
}
_FLOATS = ("float", "double", "kit::bf16", "kit::f16")
# What may branch on data; a loop's condition mostly does not.
_BRANCH = re.compile(r"\b(if|while|switch|goto)\b|\?")


class Parameters:
    """The parameters of the C++ function, which are the reference's.

    Attributes:
      name: the name of the operation.
      operands: the names of the operands.
      results: the names of the results.
      named_results: those of them that the author names.
      attributes: name -> C++ type.
    """

    def __init__(
        self,
        reference: Callable[..., object],
        results: str | Sequence[str] | int,
        attributes: Mapping[str, AttributeType],
    ) -> None:
        """Takes the names of the results, or only their number."""
        self.name = references.name_of(reference, "lambda")
        self.operands, _ = references.parameter_names(reference)
        if isinstance(results, int):
            self.results = tuple(f"{OWN}result{i}" for i in range(results))
            self.named_results: Sequence[str] = ()
        else:
            if isinstance(results, str):
                results = results.split()
            results = _check.sequence(f"{self.name}: results", results)
            self.results = self.named_results = results
        types = references.attribute_types(self.name, reference, attributes)
        self.attributes = {
            name: element_types.cpp_attribute(
                f"{self.name}: attribute {name}", type_
            )
            for name, type_ in types.items()
        }
        self._check_names("operand", self.operands)
        self._check_names("attribute", tuple(self.attributes))
        self._check_names("result", self.named_results)

    def _check_names(self, what: str, names: Sequence[str]) -> None:
        """Refuses names that C++ has another use for."""
        others = {*self.operands, *self.attributes}
        for i, name in enumerate(names):
            if not cpp.is_name(name):
                use = "a keyword" if name.isidentifier() else "no name"
            elif name.startswith(OWN):
                use = f"the kit's, as all that begins with {OWN}"
            elif name in names[:i] or (what == "result" and name in others):
                use = "another parameter"
            else:
                use = _RESERVED_NAMES.get(name, "")
            if use:
                raise BuildError(
                    f"{self.name}: {what} {name}: expected the name of a "
                    f"variable in C++, where this is {use}"
                )

    def declarations(self, dtype: str, attributes: Iterable[str]) -> list[str]:
        """The handler's parameters, whose arrays and attributes have types.

        Args:
          dtype: the C++ type of all elements.
          attributes: the C++ type of each attribute.
        """
        types = zip(self.attributes, attributes, strict=True)
        return [
            *(f"kit::In<{dtype}> {OF}{name}" for name in self.operands),
            *(f"{type_} {OF}{name}" for name, type_ in types),
            *(f"kit::Out<{dtype}> {OF}{name}" for name in self.results),
        ]

    def attribute_values(
        self, number: str, declaration: str = "const auto"
    ) -> list[str]:
        """The attributes under the author's names, to compute in `number`."""
        return [
            f"{declaration} {name} = kit::AttributeFor<{number}>({OF}{name});"
            for name in self.attributes
        ]

    def here(self) -> str:
        """The directive that begins generated lines."""
        return Place(f"<loop of {self.name}>", 1).directive()

    def source(
        self,
        code: Elements | Rows,
        lines: Sequence[str],
        dtypes: DTypes,
        shapes: Sequence[tuple[str, int] | None] | None,
        how: str,
    ) -> Source:
        """The source whose function loops over all elements or rows.

        Args:
          code: what is computed for one.
          lines: the function's body, behind what it needs.
          dtypes: the author's.
          shapes: as `Source` has them.
          how: what it loops over, in a few words.
        """
        return Source(
            name=self.name,
            code="\n".join([code.before, *lines, ""]),
            function=f"{OWN}loop",
            instances=element_types.template_arguments(self.name, dtypes),
            operands=self.operands,
            attributes=tuple(self.attributes),
            place=code.before_place or Place(f"<loop of {self.name}>", 1),
            including='pass before="{}"',
            results=self.named_results,
            shapes=shapes,
            how=f"{how} on XLA's threads, 16-bit floats as 32-bit ones",
        )

    def function(self, body: Sequence[str]) -> list[str]:
        """The function template of a handler, with this body."""
        declarations = [
            *self.declarations("T", self.attributes.values()),
            f"kit::Threads {OWN}threads",
        ]
        return [
            "template <typename T>",
            f"void {OWN}loop({', '.join(declarations)}) {{",
            *body,
            "}",
        ]


@dataclasses.dataclass(frozen=True)
class Elements:
    """What `elementwise` computes, for the loop on CPUs and on CUDA.

    Attributes:
      parameters: names and types.
      expressions: one for each result.
      places: where they come from.
      before: code before the loop.
      before_place: where that comes from.
    """

    parameters: Parameters
    expressions: Sequence[str]
    places: Sequence[Place]
    before: str
    before_place: Place | None

    def source(self, dtypes: DTypes) -> Source:
        """The source whose function loops over elements on CPUs."""
        parameters = self.parameters
        for i, expression in enumerate(self.expressions):
            cpp.check_code(f"{parameters.name}: expressions[{i}]", expression)
        arrays = [*parameters.operands, *parameters.results]
        element = f"{OF}{{name}}[{OWN}i]"
        here = parameters.here()
        body = [
            "using A = kit::Accumulate<T>;",
            *parameters.attribute_values("A"),
            f"{OWN}threads.For({OF}{parameters.results[0]}.size(), "
            f"{len(arrays)} * sizeof(T), "
            f"[&](int64_t {OWN}begin, int64_t {OWN}end) {{",
            f"for (int64_t {OWN}i = {OWN}begin; {OWN}i < {OWN}end; "
            f"++{OWN}i) {{",
            *self.body(element, element, here),
            "}",
            "});",
        ]
        return parameters.source(
            self,
            [here.rstrip("\n"), *parameters.function(body)],
            dtypes,
            [("(...)", 0)] * len(arrays),  # all arrays have one shape
            "element by element",
        )

    def body(self, into: str, out_of: str, here: str) -> list[str]:
        """An element of each result, from one of each operand.

        None is written before all are computed, because results may share an
        operand's buffer. A `return` in an expression's statements is the
        element's.

        Args:
          into: the operand's element, of the number {i} and the name {name}.
          out_of: the result's.
          here: the directive that begins generated lines.
        """
        parameters = self.parameters
        lines = [
            f"const A {name} = {into.format(i=i, name=name)};"
            for i, name in enumerate(parameters.operands)
        ]
        for result, expression, place in zip(
            parameters.results, self.expressions, self.places, strict=True
        ):
            lines += [
                f"const T {_NEW}{result} = [&]() -> T {{ return T(",
                f"{place.directive()}{expression}",
                f"{here}); }}();",
            ]
        return lines + [
            f"{out_of.format(i=i, name=name)} = {_NEW}{name};"
            for i, name in enumerate(parameters.results)
        ]


@dataclasses.dataclass(frozen=True)
class Rows:
    """What `rows` computes, for the loops on CPUs, in lanes and on CUDA.

    Attributes:
      parameters: names and types.
      body: the code for one row.
      place: where it comes from.
      kernel_axes: of each operand.
      shared: operands that are whole in every row.
      before: code before the loop.
      before_place: where that comes from.
    """

    parameters: Parameters
    body: str
    place: Place
    kernel_axes: Sequence[int]
    shared: Sequence[int]
    before: str
    before_place: Place | None

    @property
    def first(self) -> int:
        """The first operand that has rows."""
        numbers = range(len(self.parameters.operands))
        return next(i for i in numbers if i not in self.shared)

    def source(self, dtypes: DTypes, lanes: bool) -> Source:
        """The source whose function loops over rows on CPUs.

        Args:
          dtypes: the author's.
          lanes: whether several rows of floats are computed at once.
        """
        parameters, name = self.parameters, self.parameters.name
        if len(set(self.shared)) == len(parameters.operands):
            raise BuildError(
                f"{name}: operands: expected at least one that is not shared, "
                "whose rows are looped over, got none"
            )
        cpp.check_code(f"{name}: body", self.body)
        source = parameters.source(
            self, self._lines(lanes), dtypes, self._shapes(), ROW_BY_ROW
        )
        has_floats = any(type_ in _FLOATS for type_ in source.instances)
        if not lanes:
            hint = self._hint() if has_floats else ""
            return dataclasses.replace(source, how=source.how + hint)
        if not has_floats:
            raise BuildError(
                f"{name}: lanes: expected dtypes of floats, whose rows run in "
                f"lanes, got {', '.join(source.instances)}"
            )
        header = "xla_ffi/strings/lane_rows.h"
        return in_lanes(dataclasses.replace(source, header=header))

    def _lines(self, lanes: bool) -> list[str]:
        """The struct, and the function that calls it for each row."""
        parameters = self.parameters
        first = parameters.operands[self.first]
        kernel_axes = self.kernel_axes[self.first]
        attributes = ", ".join(f"{OF}{name}" for name in parameters.attributes)
        ins, outs = (
            ", ".join(f"kit::SharedRow({OF}{name})" for name in names)
            for names in (parameters.operands, parameters.results)
        )
        run = "RunRowsInLanes" if lanes else "RunRows"
        return [
            f"{parameters.here()}struct {STRUCT} {{",
            *(f"{t} {OF}{name};" for name, t in parameters.attributes.items()),
            *self.members({}, lanes),
            "};",
            *parameters.function(
                [
                    f"kit::{run}<T>({STRUCT}{{{attributes}}}, {OWN}threads, "
                    f"{OF}{first}.Product({OF}{first}.rank() - "
                    f"{kernel_axes}), {{{ins}}}, {{{outs}}});",
                ]
            ),
        ]

    def members(self, aliases: Mapping[str, str], lanes: bool) -> list[str]:
        """The code for a row as a member of a struct with the attributes.

        It gets the row's part of each operand, the whole operands, of which it
        reads those that rows share, and the row's part of each result.

        Args:
          aliases: C++ that gives an operand its row where that is a result's.
          lanes: whether rows run in lanes. What surrounds the code does not
            become part of it then: compilers fuse its products and sums in the
            same way for one row and for several.
        """
        parameters = self.parameters
        is_shared = [i in self.shared for i in range(len(parameters.operands))]
        flags = ", ".join(str(flag).lower() for flag in is_shared)
        return [
            f"static constexpr bool {OWN}is_shared[] = {{{flags}}};",
            f"template <typename {OWN}T, typename {OWN}Whole>",
            *(["__attribute__((noinline))"] if lanes else []),
            f"void operator()(const kit::Row<const {OWN}T>* {OWN}in, "
            f"const kit::Row<const {OWN}Whole>* {OWN}whole, "
            f"const kit::Row<{OWN}T>* {OWN}out) const {{",
            # No parameters of the template, so that one of the author's may
            # have their names.
            f"using T = {OWN}T;",
            "using A = kit::Accumulate<T>;",
            *parameters.attribute_values("kit::Plain<A>"),
            *(
                f"const auto {name} = "
                + (
                    f"{OWN}whole[{i}]"
                    if is_shared[i]
                    else aliases.get(name, f"{OWN}in[{i}]")
                )
                + ";"
                for i, name in enumerate(parameters.operands)
            ),
            *(
                f"const auto {name} = {OWN}out[{i}];"
                for i, name in enumerate(parameters.results)
            ),
            *self.code(parameters.here()),
            "}",
        ]

    def code(self, here: str) -> list[str]:
        """The author's code, which `continue` and `break` end, too."""
        return [
            "do {",
            f"{self.place.directive()}{self.body}",
            f"{here}}} while (false);",
        ]

    def _shapes(self) -> list[tuple[str, int] | None] | None:
        """The operands' shapes as far as `rows` knows them."""
        letters = iter(string.ascii_lowercase)
        if sum(self.kernel_axes) > len(string.ascii_lowercase):
            return None
        shapes: list[tuple[str, int] | None] = []
        for i, count in enumerate(self.kernel_axes):
            sizes = list(itertools.islice(letters, count))
            axes = sizes if i in self.shared else ["...", *sizes]
            shapes.append((f"({', '.join(axes)})", count))
        return [*shapes, *[None] * len(self.parameters.results)]

    def _hint(self) -> str:
        """Whether lanes might pay, as far as the text says."""
        hint = "; lanes=True might pay for many rows"
        branch = _BRANCH.search(cpp.without_comments(self.body))
        if branch is None:
            return hint
        number = self.body.count("\n", 0, branch.start())
        line = self.body.splitlines()[number].strip()
        return f"{hint}, if `{line}` does not branch on data"


def in_lanes(source: Source) -> Source:
    """A source whose code runs rows in lanes, which exports how many.

    Instances of integers run row by row.
    """
    counts = ", ".join(
        f"kit::LanesOf<{type_}>::kCount" if type_ in _FLOATS else "1"
        for type_ in source.instances
    )
    export = (
        'extern "C" {\n__attribute__((visibility("default"))) extern '
        f"const int {LANES}[];\nconst int {LANES}[] = {{{counts}, 0}};\n}}\n"
    )
    return dataclasses.replace(
        source,
        code=source.code + export,
        flags=LANES_FLAGS,
        remedy=remedies.of_lanes,
    )
