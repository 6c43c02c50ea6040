"""Writes the C++ of `rows` that runs several rows in SIMD lanes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from xla_ffi_kit.strings import cpp, loops
from xla_ffi_kit.strings.loops import OF, OWN, Loop
from xla_ffi_kit.strings.source import Place, Source

# The exports of libraries of `rows`: the lanes of each instance, 1 for one row
# after the other; and why there are none although they were asked for.
LANES, WHY = "XlaFfiKit_lanes", "XlaFfiKit_why"
_FLOATS = ("float", "double", "kit::bf16", "kit::f16")
_MESSAGE = re.compile(r"error: (.*)")


def source(
    loop: Loop,
    body: str,
    kernel_axes: Sequence[int],
    shared: Sequence[int],
    before: str,
    place: Place,
    one_by_one: Source,
) -> Source:
    """The source in lanes, with that for one row after the other behind it.

    Without an array of floats there are no lanes, and `one_by_one` is returned.
    """
    if not any(type_ in _FLOATS for type_ in one_by_one.instances):
        return one_by_one

    def instead(error: str) -> Source:
        why = cpp.literal(_why(error, body, place))
        code = one_by_one.code + _export(f"const char {WHY}[]", why)
        return dataclasses.replace(one_by_one, code=code)

    code = _loop(loop, body, kernel_axes, shared, before, place)
    counts = ", ".join(
        f"kit::LanesOf<{type_}>::kCount" if type_ in _FLOATS else "1"
        for type_ in one_by_one.instances
    )
    return dataclasses.replace(
        one_by_one,
        # The functions of std:: come first: a template of the author's finds
        # those that stand before it.
        code=f'#include "xla_ffi/inline/lane_rows.h"\n{code}'
        + _export(f"const int {LANES}[]", f"{{{counts}, 0}}"),
        place=Place(f"<loop of {loop.name}>", 1),
        instead=instead,
    )


def _export(declaration: str, value: str) -> str:
    return (
        f'extern "C" {{\n__attribute__((visibility("default"))) extern '
        f"{declaration};\n{declaration} = {value};\n}}\n"
    )


def _why(error: str, body: str, place: Place) -> str:
    """What keeps a string out of lanes, from the compiler's error."""
    said = _MESSAGE.search(error)
    message = said[1].strip() if said else error.split("does not compile: ")[-1]
    reason = f"does not compile for lanes: {message}"
    if "Mask" in error and "bool" in error:
        reason = "branches on data"
    found = re.search(rf"{re.escape(place.file)}:(\d+)\b", error)
    lines = body.splitlines()
    number = int(found[1]) - place.line if found else -1
    if not 0 <= number < len(lines):
        return f"it {reason}"
    return f"line {number + 1}, `{lines[number].strip()}`, {reason}"


def _loop(
    loop: Loop,
    body: str,
    kernel_axes: Sequence[int],
    shared: Sequence[int],
    before: str,
    place: Place,
) -> str:
    """The loop over groups of rows around the code for one row."""
    arrays = [*loop.operands, *loop.results]
    names = [*arrays, *loop.attributes]
    types = [f"{OWN}type{i}" for i in range(len(names))]
    template = ", ".join(f"typename {type_}" for type_ in ("T", "A", *types))
    parameters = ", ".join(
        f"const {type_}& {name}"
        for type_, name in zip(types, names, strict=True)
    )
    first = next(i for i in range(len(arrays)) if i not in shared)
    x = f"{OF}{loop.operands[first]}"
    sizes = " + ".join(
        f"{OF}{name}.size()" for i, name in enumerate(arrays) if i not in shared
    )
    handler = [
        *(f"kit::In<{OWN}T> {OF}{name}" for name in loop.operands),
        *(f"{type_} {OF}{name}" for name, type_ in loop.attributes.items()),
        *(f"kit::Out<{OWN}T> {OF}{name}" for name in loop.results),
        f"kit::Threads {OWN}threads",
    ]
    here = loop.here()
    own = [name for i, name in enumerate(arrays) if i not in shared]
    lines = [
        f"{before}\n{here}template <{template}>",
        f"void {OWN}row({parameters}) {{",
        *loops.row(body, place, here),
        "}",
        f"template <typename {OWN}T>",
        f"void {OWN}loop({', '.join(handler)}) {{",
        f"using {OWN}A = kit::Accumulate<{OWN}T>;",
        *(
            f"const auto {name} = kit::AttributeFor<{OWN}A>({OF}{name});"
            for name in loop.attributes
        ),
        f"const int64_t {OWN}rows = {x}.Product({x}.rank() - "
        f"{kernel_axes[first]});",
        f"if ({OWN}rows == 0) return;",
        f"const int64_t {OWN}bytes = sizeof({OWN}T) * (({sizes}) / {OWN}rows);",
        f"using {OWN}L = kit::LanesOf<{OWN}T>;",
        f"if constexpr (std::is_void_v<{OWN}L>) {{",
        f"{OWN}threads.For({OWN}rows, {OWN}bytes, "
        f"[&](int64_t {OWN}begin, int64_t {OWN}end) {{",
        f"for (int64_t {OWN}i = {OWN}begin; {OWN}i < {OWN}end; ++{OWN}i) {{",
        *(
            f"const auto {name} = kit::SharedRow({OF}{name});"
            if i in shared
            else f"const auto {name} = kit::RowOf({OF}{name}, {OWN}rows, "
            f"{OWN}i);"
            for i, name in enumerate(arrays)
        ),
        f"{OWN}row<{OWN}T, {OWN}A>({', '.join(names)});",
        "}",
        "});",
        "} else {",
        f"{OWN}threads.For(kit::GroupsOf<{OWN}L>({OWN}rows), "
        f"{OWN}bytes * {OWN}L::kCount, "
        f"[&](int64_t {OWN}begin, int64_t {OWN}end) {{",
        *_rows_of_group(loop, arrays, shared),
        f"for (int64_t {OWN}i = {OWN}begin; {OWN}i < {OWN}end; ++{OWN}i) {{",
        *(f"{name}.Begin({OWN}i);" for name in own),
        f"{OWN}row<{OWN}L, kit::Accumulate<{OWN}L>>({', '.join(names)});",
        *(f"{name}.End();" for name in loop.results),
        "}",
        "});",
        "}",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _rows_of_group(
    loop: Loop, arrays: Sequence[str], shared: Sequence[int]
) -> list[str]:
    """The arrays as the rows of a group are seen."""
    operands = ", ".join(f"{OF}{name}" for name in loop.operands)
    lines = []
    for i, name in enumerate(arrays):
        if i in shared:
            lines.append(f"const auto {name} = kit::SharedRow({OF}{name});")
        elif i < len(loop.operands):
            lines.append(
                f"kit::LaneRow<const {OWN}T> {name}({OF}{name}, {OWN}rows);"
            )
        else:
            lines.append(
                f"kit::LaneRow<{OWN}T> {name}({OF}{name}, {OWN}rows, "
                f"kit::IsAmong({OF}{name}, {operands}));"
            )
    return lines
