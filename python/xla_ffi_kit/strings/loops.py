"""The C++ that `elementwise` and `rows` write around an author's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xla_ffi_kit.op.spec import AttributeType
from xla_ffi_kit.strings import element_types, operation
from xla_ffi_kit.strings.source import Place, Source


class Loop:
    """The parameters of the C++ function: the reference's, in C++ types.

    Generated names end in an underscore, so that they hide none of an author's.
    """

    def __init__(
        self,
        reference: Callable[..., object],
        attributes: Mapping[str, AttributeType],
    ) -> None:
        self.name = reference.__name__
        self.operands, _ = operation.parameter_names(reference)
        types = operation.attribute_types(self.name, reference, attributes)
        self.attributes = {
            name: element_types.cpp_attribute(type_)
            for name, type_ in types.items()
        }

    def source(self, code: str, dtypes: str | Sequence[str]) -> Source:
        """The function as a source to compile."""
        return Source(
            name=self.name,
            code=code,
            function=f"{self.name}_",
            instances=element_types.template_arguments(self.name, dtypes),
            operands=self.operands,
            attributes=tuple(self.attributes),
            place=Place(f"<loop of {self.name}>", 1),
        )

    def function(self, results: Sequence[str], body: Sequence[str]) -> str:
        """The function template around `body`."""
        parameters = [
            *(f"kit::In<T> {name}_" for name in self.operands),
            *(f"{type} {name}_" for name, type in self.attributes.items()),
            *(f"kit::Out<T> {name}_" for name in results),
            "kit::Threads threads_",
        ]
        lines = [
            "template <typename T>",
            f"void {self.name}_({', '.join(parameters)}) {{",
            "using A = kit::Accumulate<T>;",
            *(
                f"const auto {name} = kit::AttributeFor<A>({name}_);"
                for name in self.attributes
            ),
            *body,
            "}",
        ]
        return "\n".join(lines) + "\n"


def elementwise(
    loop: Loop, expressions: Sequence[str], before: str, place: Place
) -> str:
    """The loop over elements, with an expression for each result."""
    results = [f"result{i}" for i in range(len(expressions))]
    arrays = len(loop.operands) + len(results)
    here = Place(f"<loop of {loop.name}>", 1).directive().rstrip()
    body = [
        f"threads_.For(result0_.size(), {arrays} * sizeof(T), "
        "[&](int64_t begin_, int64_t end_) {",
        "for (int64_t i_ = begin_; i_ < end_; ++i_) {",
        *(f"const A {name} = {name}_[i_];" for name in loop.operands),
    ]
    for result, expression in zip(results, expressions, strict=True):
        body += [
            # Results may share an operand's buffer: none is written before all
            # are computed.
            f"const T {result} = T(",
            f"{place.directive()}{expression}",
            f"{here}",
            ");",
        ]
    body += [f"{result}_[i_] = {result};" for result in results]
    return before + "\n" + loop.function(results, [*body, "}", "});"])


def rows(
    loop: Loop,
    body: str,
    results: Sequence[str],
    kernel_axes: int | Sequence[int],
    shared: Sequence[int],
    before: str,
    place: Place,
) -> str:
    """The loop over rows around the code for one row."""
    if isinstance(kernel_axes, int):
        kernel_axes = [kernel_axes] * len(loop.operands)
    first = next(i for i in range(len(loop.operands)) if i not in shared)
    x = f"{loop.operands[first]}_"
    arrays = [*loop.operands, *results]
    bytes_of_row = " + ".join(
        f"{name}_.size()" for i, name in enumerate(arrays) if i not in shared
    )
    parts = [
        f"const auto {name} = kit::SharedRow({name}_);"
        if i in shared
        else f"const auto {name} = kit::RowOf({name}_, rows_, i_);"
        for i, name in enumerate(arrays)
    ]
    here = Place(f"<loop of {loop.name}>", 1).directive().rstrip()
    lines = [
        f"const int64_t rows_ = {x}.Product({x}.rank() - "
        f"{kernel_axes[first]});",
        "if (rows_ == 0) return;",
        f"threads_.For(rows_, sizeof(T) * (({bytes_of_row}) / rows_), "
        "[&](int64_t begin_, int64_t end_) {",
        "for (int64_t i_ = begin_; i_ < end_; ++i_) {",
        *parts,
        "{",
        f"{place.directive()}{body}",
        here,
        "}",
        "}",
        "});",
    ]
    return before + "\n" + loop.function(results, lines)
