"""Writes the C++ of `rows` that runs several rows in SIMD lanes."""

from __future__ import annotations

import dataclasses
import re

from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings.text import remedies
from xla_ffi_kit.strings.text.loops import Rows
from xla_ffi_kit.strings.text.source import (
    LANES,
    OF,
    OWN,
    STACK_FLAGS,
    Place,
    Source,
)

_FLOATS = ("float", "double", "kit::bf16", "kit::f16")
# What may branch on data; a loop's condition mostly does not.
_BRANCH = re.compile(r"\b(if|while|switch|goto)\b|\?")


def source(code: Rows, one_by_one: Source) -> Source:
    """The source in lanes, in which instances of integers run row by row."""
    name = code.loop.name
    if not any(type_ in _FLOATS for type_ in one_by_one.instances):
        raise BuildError(
            f"{name}: lanes: expected dtypes of floats, whose rows run in "
            f"lanes, got {', '.join(one_by_one.instances)}"
        )
    # The functions of std:: come first: a template of the author's finds those
    # that stand before it.
    lanes = dataclasses.replace(
        one_by_one,
        code=f'#include "xla_ffi/strings/lane_rows.h"\n{_loop(code)}',
        place=Place(f"<loop of {name}>", 1),
    )
    return in_lanes(lanes)


def hint(code: Rows, one_by_one: Source) -> str:
    """Whether lanes might pay, as far as the text says."""
    if not any(type_ in _FLOATS for type_ in one_by_one.instances):
        return ""
    said = "; lanes=True might pay for many rows"
    branch = _BRANCH.search(cpp.without_comments(code.body))
    if branch is None:
        return said
    number = code.body.count("\n", 0, branch.start())
    line = code.body.splitlines()[number].strip()
    return f"{said}, if `{line}` does not branch on data"


def in_lanes(source: Source) -> Source:
    """A source whose code runs rows in lanes, which exports how many."""
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
        flags=STACK_FLAGS,
        remedy=remedies.of_lanes,
    )


def _loop(code: Rows) -> str:
    """The loop over groups of rows around the code for one row."""
    loop = code.loop
    names = [*loop.operands, *loop.results, *loop.attributes]
    types = [f"{OWN}type{i}" for i in range(len(names))]
    numbers = (f"{OWN}N", f"{OWN}A")
    template = ", ".join(f"typename {type_}" for type_ in (*numbers, *types))
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
        # No parameters of the template, so that one of the author's may have
        # their names.
        f"using T = {OWN}N;\nusing A = {OWN}A;",
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
    lines = [
        f"kit::LaneRow<{OWN}T> {name}({OF}{name}, {OWN}rows, "
        f"kit::IsAmong({OF}{name}, {operands}));"
        for name in loop.results
    ]
    results = "".join(f", {name}" for name in loop.results)
    return lines + [
        f"const auto {name} = kit::SharedRow({OF}{name});"
        if i in code.shared
        else f"kit::LaneRow<const {OWN}T> {name}({OF}{name}, {OWN}rows"
        f"{results});"
        for i, name in enumerate(loop.operands)
    ]
