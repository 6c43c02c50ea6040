"""Writes the C++ loops of `elementwise` and `rows` around an author's code."""

from __future__ import annotations

import dataclasses
import itertools
import string
from collections.abc import Callable, Iterable, Mapping, Sequence

from xla_ffi_kit import _check
from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.op.spec import AttributeType
from xla_ffi_kit.strings.text import element_types, references
from xla_ffi_kit.strings.text.element_types import DTypes
from xla_ffi_kit.strings.text.source import OF, OWN, Place, Source

# Names of values to write end with the author's name.
NEW = "kit_new_"
_TYPES = {
    "T": "the type of the arrays",
    "A": "the type to compute in",
    "kit": "the namespace of the kit",
    "std": "the namespace of C++'s library",
}


class Loop:
    """The parameters of the C++ function, which are the reference's.

    Attributes:
      name: the name of the operation.
      operands: the names of the operands.
      results: the names of the results.
      named_results: those that the author gave.
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
                use = _TYPES.get(name, "")
            if use:
                raise BuildError(
                    f"{self.name}: {what} {name}: expected the name of a "
                    f"variable in C++, where this is {use}"
                )

    def source(
        self,
        code: str,
        dtypes: DTypes,
        before: Place | None,
        shapes: Sequence[tuple[str, int] | None] | None,
        each: str,
    ) -> Source:
        """The function as a source to compile, which loops over `each`."""
        return Source(
            name=self.name,
            code=code,
            function=f"{OWN}loop",
            instances=element_types.template_arguments(self.name, dtypes),
            operands=self.operands,
            attributes=tuple(self.attributes),
            place=before or Place(f"<loop of {self.name}>", 1),
            including='pass before="{}"',
            results=self.named_results,
            shapes=shapes,
            how=f"{each} on XLA's threads, 16-bit floats as 32-bit ones",
        )

    def here(self) -> str:
        """Returns the directive that begins generated lines."""
        return Place(f"<loop of {self.name}>", 1).directive()

    def parameters(self, dtype: str, attributes: Iterable[str]) -> list[str]:
        """The operands, attributes and results, of these types in C++."""
        types = zip(self.attributes, attributes, strict=True)
        return [
            *(f"kit::In<{dtype}> {OF}{name}" for name in self.operands),
            *(f"{type_} {OF}{name}" for name, type_ in types),
            *(f"kit::Out<{dtype}> {OF}{name}" for name in self.results),
        ]

    def given(self, number: str, declared: str = "const auto") -> list[str]:
        """The attributes under the author's names, to compute in `number`."""
        return [
            f"{declared} {name} = kit::AttributeFor<{number}>({OF}{name});"
            for name in self.attributes
        ]

    def function(self, before: str, body: Sequence[str]) -> str:
        """The function template around `body`."""
        parameters = [
            *self.parameters("T", self.attributes.values()),
            "kit::Threads kit_threads",
        ]
        lines = [
            f"{before}\n{self.here()}template <typename T>",
            f"void kit_loop({', '.join(parameters)}) {{",
            "using A = kit::Accumulate<T>;",
            *self.given("A"),
            *body,
            "}",
        ]
        return "\n".join(lines) + "\n"


@dataclasses.dataclass(frozen=True)
class Elements:
    """What `elementwise` computes, for the loop on CPUs and on CUDA.

    Attributes:
      loop: names and types.
      expressions: one for each result.
      places: where they come from.
      before: code before the loop.
      before_place: where that comes from.
    """

    loop: Loop
    expressions: Sequence[str]
    places: Sequence[Place]
    before: str
    before_place: Place | None

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
        loop = self.loop
        lines = [
            f"const A {name} = {into.format(i=i, name=name)};"
            for i, name in enumerate(loop.operands)
        ]
        for result, expression, place in zip(
            loop.results, self.expressions, self.places, strict=True
        ):
            lines += [
                f"const T {NEW}{result} = [&]() -> T {{ return T(",
                f"{place.directive()}{expression}",
                f"{here}); }}();",
            ]
        return lines + [
            f"{out_of.format(i=i, name=name)} = {NEW}{name};"
            for i, name in enumerate(loop.results)
        ]

    def on_cpu(self) -> str:
        """The function that loops over elements."""
        loop = self.loop
        for i, expression in enumerate(self.expressions):
            cpp.check_code(f"{loop.name}: expressions[{i}]", expression)
        arrays = len(loop.operands) + len(loop.results)
        element = f"{OF}{{name}}[kit_i]"
        body = [
            f"kit_threads.For({OF}{loop.results[0]}.size(), "
            f"{arrays} * sizeof(T), "
            "[&](int64_t kit_begin, int64_t kit_end) {",
            "for (int64_t kit_i = kit_begin; kit_i < kit_end; ++kit_i) {",
            *self.body(element, element, loop.here()),
            "}",
            "});",
        ]
        return loop.function(self.before, body)


def shapes_of_elements(loop: Loop) -> list[tuple[str, int]]:
    """All arrays of `elementwise` have one shape."""
    return [("(...)", 0)] * len([*loop.operands, *loop.results])


@dataclasses.dataclass(frozen=True)
class Rows:
    """What `rows` computes, for the loops on CPUs, in lanes and on CUDA.

    Attributes:
      loop: names and types.
      body: the code for one row.
      place: where it comes from.
      kernel_axes: of each operand.
      shared: operands that are whole in every row.
      before: code before the loop.
      before_place: where that comes from.
    """

    loop: Loop
    body: str
    place: Place
    kernel_axes: Sequence[int]
    shared: Sequence[int]
    before: str
    before_place: Place | None

    @property
    def first(self) -> int:
        """The first operand that has rows."""
        numbers = range(len(self.loop.operands))
        return next(i for i in numbers if i not in self.shared)

    @property
    def with_rows(self) -> list[str]:
        """The names of the arrays that have rows."""
        arrays = enumerate((*self.loop.operands, *self.loop.results))
        return [name for i, name in arrays if i not in self.shared]

    def check(self) -> None:
        """Refuses what is no code for a row, or has no rows."""
        name = self.loop.name
        if len(set(self.shared)) == len(self.loop.operands):
            raise BuildError(
                f"{name}: operands: expected at least one that is not shared, "
                "whose rows are looped over, got none"
            )
        cpp.check_code(f"{name}: body", self.body)

    def shapes(self) -> list[tuple[str, int] | None] | None:
        """The operands' shapes as far as `rows` knows them."""
        letters = iter(string.ascii_lowercase)
        if sum(self.kernel_axes) > len(string.ascii_lowercase):
            return None
        shapes: list[tuple[str, int] | None] = []
        for i, count in enumerate(self.kernel_axes):
            sizes = list(itertools.islice(letters, count))
            axes = sizes if i in self.shared else ["...", *sizes]
            shapes.append((f"({', '.join(axes)})", count))
        return [*shapes, *[None] * len(self.loop.results)]

    def count(self) -> list[str]:
        """Declares kit_rows, the number of rows; returns if it is 0."""
        x = f"{OF}{self.loop.operands[self.first]}"
        own = self.kernel_axes[self.first]
        return [
            f"const int64_t kit_rows = {x}.Product({x}.rank() - {own});",
            "if (kit_rows == 0) return;",
        ]

    def bytes_of_row(self, dtype: str) -> str:
        """The bytes of a row of all arrays, of that type in C++."""
        sizes = " + ".join(f"{OF}{name}.size()" for name in self.with_rows)
        return f"sizeof({dtype}) * (({sizes}) / kit_rows)"

    def arrays(self, at: str) -> list[str]:
        """The arrays under the author's names, as a row sees them."""
        with_rows = set(self.with_rows)
        return [
            f"const auto {name} = kit::RowOf({OF}{name}, {at});"
            if name in with_rows
            else f"const auto {name} = kit::SharedRow({OF}{name});"
            for name in (*self.loop.operands, *self.loop.results)
        ]

    def code(self, here: str) -> list[str]:
        """The code for one row, which `continue` and `break` end."""
        return [
            "do {",
            f"{self.place.directive()}{self.body}",
            f"{here}}} while (false);",
        ]

    def on_cpu(self) -> str:
        """The function that loops over rows."""
        self.check()
        lines = [
            *self.count(),
            # A function of its own, so that an author's `return` ends the row.
            "const auto kit_row = [&](int64_t kit_i) -> void {",
            *self.arrays("kit_rows, kit_i"),
            *self.code(self.loop.here()),
            "};",
            f"kit_threads.For(kit_rows, {self.bytes_of_row('T')}, "
            "[&](int64_t kit_begin, int64_t kit_end) {",
            "for (int64_t kit_i = kit_begin; kit_i < kit_end; ++kit_i) {",
            "kit_row(kit_i);",
            "}",
            "});",
        ]
        return self.loop.function(self.before, lines)
