"""Writes the C++ of `rows` that runs several rows in SIMD lanes."""

from __future__ import annotations

import dataclasses
import os
import re

from xla_ffi_kit.strings import cpp
from xla_ffi_kit.strings.loops import OF, OWN, Rows
from xla_ffi_kit.strings.source import LANES, WHY, Place, Source

_FLOATS = ("float", "double", "kit::bf16", "kit::f16")
_MESSAGE = re.compile(r"error: (.*)")


def source(code: Rows, one_by_one: Source) -> Source:
    """The source in lanes, with that for one row after the other behind it.

    Without an array of floats there are no lanes, and `one_by_one` is returned.
    """
    if not any(type_ in _FLOATS for type_ in one_by_one.instances):
        return one_by_one
    # The functions of std:: come first: a template of the author's finds those
    # that stand before it.
    lanes = dataclasses.replace(
        one_by_one,
        code=f'#include "xla_ffi/inline/lane_rows.h"\n{_loop(code)}',
        place=Place(f"<loop of {code.loop.name}>", 1),
    )
    return with_lanes(code, lanes, one_by_one)


def with_lanes(code: Rows, lanes: Source, one_by_one: Source) -> Source:
    """The source in lanes, with the other behind it; both say what they are."""

    def instead(error: str) -> Source:
        why = cpp.literal(_why(error, code.body, code.place))
        reason = _export(f"const char {WHY}[]", why)
        return dataclasses.replace(one_by_one, code=one_by_one.code + reason)

    counts = ", ".join(
        f"kit::LanesOf<{type_}>::kCount" if type_ in _FLOATS else "1"
        for type_ in one_by_one.instances
    )
    return dataclasses.replace(
        lanes,
        code=lanes.code + _export(f"const int {LANES}[]", f"{{{counts}, 0}}"),
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
    where = f"line {number + 1}"
    if not place.file.startswith("<"):
        where = f"{os.path.basename(place.file)}:{place.line + number}"
    return f"{where}, `{lines[number].strip()}`, {reason}"


def _loop(code: Rows) -> str:
    """The loop over groups of rows around the code for one row."""
    loop = code.loop
    names = [*loop.operands, *loop.results, *loop.attributes]
    types = [f"{OWN}type{i}" for i in range(len(names))]
    template = ", ".join(f"typename {type_}" for type_ in ("T", "A", *types))
    parameters = ", ".join(
        f"const {type_}& {name}"
        for type_, name in zip(types, names, strict=True)
    )
    handler = [
        *loop.parameters(f"{OWN}T", loop.attributes.values()),
        f"kit::Threads {OWN}threads",
    ]
    here = loop.here()
    lines = [
        f"{code.before}\n{here}template <{template}>",
        f"void {OWN}row({parameters}) {{",
        *code.code(here),
        "}",
        f"template <typename {OWN}T>",
        f"void {OWN}loop({', '.join(handler)}) {{",
        f"using {OWN}A = kit::Accumulate<{OWN}T>;",
        *loop.given(f"{OWN}A"),
        *code.count(),
        f"const int64_t {OWN}bytes = {code.bytes_of_row(f'{OWN}T')};",
        f"using {OWN}L = kit::LanesOf<{OWN}T>;",
        f"if constexpr (std::is_void_v<{OWN}L>) {{",
        f"{OWN}threads.For({OWN}rows, {OWN}bytes, "
        f"[&](int64_t {OWN}begin, int64_t {OWN}end) {{",
        f"for (int64_t {OWN}i = {OWN}begin; {OWN}i < {OWN}end; ++{OWN}i) {{",
        *code.arrays(f"{OWN}rows, {OWN}i"),
        f"{OWN}row<{OWN}T, {OWN}A>({', '.join(names)});",
        "}",
        "});",
        "} else {",
        f"{OWN}threads.For(kit::GroupsOf<{OWN}L>({OWN}rows), "
        f"{OWN}bytes * {OWN}L::kCount, "
        f"[&](int64_t {OWN}begin, int64_t {OWN}end) {{",
        *_arrays_of_group(code),
        f"for (int64_t {OWN}i = {OWN}begin; {OWN}i < {OWN}end; ++{OWN}i) {{",
        *(f"{name}.Begin({OWN}i);" for name in code.with_rows),
        f"{OWN}row<{OWN}L, kit::Accumulate<{OWN}L>>({', '.join(names)});",
        *(f"{name}.End();" for name in loop.results),
        "}",
        "});",
        "}",
        "}",
    ]
    return "\n".join(lines) + "\n"


def _arrays_of_group(code: Rows) -> list[str]:
    """The arrays as the rows of a group are seen."""
    loop = code.loop
    operands = ", ".join(f"{OF}{name}" for name in loop.operands)
    lines = []
    for i, name in enumerate(loop.operands):
        if i in code.shared:
            lines.append(f"const auto {name} = kit::SharedRow({OF}{name});")
        else:
            lines.append(
                f"kit::LaneRow<const {OWN}T> {name}({OF}{name}, {OWN}rows);"
            )
    return lines + [
        f"kit::LaneRow<{OWN}T> {name}({OF}{name}, {OWN}rows, "
        f"kit::IsAmong({OF}{name}, {operands}));"
        for name in loop.results
    ]
