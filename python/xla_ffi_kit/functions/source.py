"""Writes the C++ around the call of a C function; xla_ffi/strings/c_function.h.

The names of generated variables end with the number of a parameter, because a
declaration may have names that C++ has another use for, or none.
"""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias

import numpy as np

from xla_ffi_kit.compile import cpp
from xla_ffi_kit.functions import declaration as declarations
from xla_ffi_kit.functions.declaration import CHAR, Type
from xla_ffi_kit.functions.layout import Argument, Kind, Layout
from xla_ffi_kit.strings.text import element_types
from xla_ffi_kit.strings.text.source import Place, Source

# What a status means: a text for each, one text for all, or "nan".
Status: TypeAlias = str | Mapping[int, str] | None
NAN = "nan"
# The variables of a library, which the package sets.
FUNCTIONS = "XlaFfiKit_functions"
LOCK = "XlaFfiKit_lock"
HEADER = '#include "xla_ffi/strings/c_function.h"\n'


def exported(count: int) -> str:
    """Defines the addresses of so many functions."""
    return _exported(f"void* {FUNCTIONS}[{count}] = {{}}")


def _exported(variable: str) -> str:
    attribute = '__attribute__((visibility("default")))'
    return f'extern "C" {{ {attribute} {variable}; }}\n'


def of(
    name: str,
    target: str,
    layout: Layout,
    *,
    shared: Collection[str],
    aliased: Collection[int],
    status: Status,
    thread_safe: bool,
) -> Source:
    """The source of a C function's handler.

    Args:
      name: the name of the operation.
      target: its custom call target: two of one name are two libraries.
      layout: the function.
      shared: the operands without batch axes.
      aliased: the results that may be in an operand's memory.
      status: what a status means.
      thread_safe: whether several threads may call the function at once.

    Raises:
      ValueError: it has more axes than a handler's signature can name.
    """
    code = _Call(layout, shared, aliased, status, thread_safe)
    return Source(
        name=name,
        code=f"// {target}\n{HEADER}{code.text()}",
        function="kit_call",
        instances=(),
        operands=layout.names,
        attributes=(),
        place=Place(f"<call of {name}>", 1),
        results=layout.result_names,
        shapes=_shapes(name, layout, shared),
    )


def _shapes(
    name: str, layout: Layout, shared: Collection[str]
) -> list[tuple[str, int]]:
    count = sum(len(a.letters) for a in (*layout.operands, *layout.results))
    if count > len(string.ascii_lowercase):
        raise ValueError(
            f"{name}: axes: expected at most {len(string.ascii_lowercase)} of "
            f"all operands and results, got {count}"
        )
    own = [
        ", ".join(a.letters if n in shared else ("...", *a.letters))
        for n, a in zip(layout.names, layout.operands, strict=True)
    ]
    own += [", ".join(("...", *a.letters)) for a in layout.results]
    arrays = (*layout.operands, *layout.results)
    return [
        (f"({text})", len(a.letters))
        for text, a in zip(own, arrays, strict=True)
    ]


def cpp_type(dtype: np.dtype[np.generic]) -> str:
    """The C++ type of a number, of which arrays consist."""
    return "char" if dtype == CHAR else element_types.cpp_type(dtype)


def _parameter_type(type_: Type | None) -> str:
    if type_ is None:
        return "void"
    const = "const " if type_.is_pointer and type_.is_const else ""
    return f"{const}{cpp_type(type_.dtype)}{'*' * type_.is_pointer}"


def _size(text: str) -> str:
    """A size in C++, where the axes are variables."""
    names = {"max": "kit::LargerOf", "min": "kit::SmallerOf"}
    return re.sub(
        r"[^\W\d]\w*", lambda m: names.get(m[0], f"kit_axis_{m[0]}"), text
    )


class _Call:
    """A function of a handler that calls the C function for each row."""

    def __init__(
        self,
        layout: Layout,
        shared: Collection[str],
        aliased: Collection[int],
        status: Status,
        thread_safe: bool,
    ) -> None:
        self._layout, self._status = layout, status
        self._thread_safe = thread_safe
        self._fails = layout.has_status and status != NAN
        self._arguments = list(enumerate(layout.arguments))
        operands = [i for i, a in self._arguments if a.is_operand]
        self._shared = {
            i
            for i, name in zip(operands, layout.names, strict=True)
            if name in shared
        }
        results = ["kit_out"] if layout.returned else []
        results += [f"kit_out{i}" for i, a in self._arguments if a.is_result]
        self._results = list(zip(results, layout.results, strict=True))
        self._aliased = {
            variable
            for i, (variable, _) in enumerate(self._results)
            if i in aliased
        }

    def text(self) -> str:
        """The function, and what it needs."""
        layout = self._layout
        returns = layout.declaration.returns
        has_complex = any(
            a.dtype.kind == "c" for a in (*layout.arguments, *layout.results)
        )
        types = ", ".join(
            _parameter_type(a.parameter.type) for a in layout.arguments
        )
        lines = [
            *(["#include <complex>"] if has_complex else []),
            exported(1),
            *(() if self._thread_safe else self._lock()),
            *(self._meaning() if self._fails else ()),
            f"void kit_call({', '.join(self._parameters())}) {{",
            f"auto* const kit_function = reinterpret_cast<"
            f"{_parameter_type(returns)} (*)({types})>({FUNCTIONS}[0]);",
            *self._axes(),
            *self._counts(),
            "if (kit_rows == 0) return;",
            *(["kit::Failure kit_failure;"] if self._fails else []),
            *self._loop(),
            *(["kit_failure.Throw(kit_meaning);"] if self._fails else []),
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _lock(self) -> list[str]:
        return [
            "static pthread_mutex_t kit_mutex = PTHREAD_MUTEX_INITIALIZER;",
            _exported(f"pthread_mutex_t* {LOCK} = &kit_mutex"),
        ]

    def _meaning(self) -> list[str]:
        texts = self._status
        lines = ["static const char* kit_meaning(int64_t status) {"]
        if isinstance(texts, Mapping):
            lines += [
                f"if (status == {int(number)}) return {cpp.literal(text)};"
                for number, text in texts.items()
            ]
            texts = None
        told = "nullptr" if texts is None else cpp.literal(texts)
        return [*lines, f"return {told};", "}"]

    def _parameters(self) -> Iterator[str]:
        """The buffers, as a handler's function has them."""
        for i, a in self._arguments:
            if a.is_operand:
                yield f"kit::In<{cpp_type(a.dtype)}> kit_in{i}"
        for variable, a in self._results:
            yield f"kit::Out<{cpp_type(a.dtype)}> {variable}"
        yield "kit::Threads kit_threads"

    def _buffers(self) -> Iterator[tuple[str, str, Argument]]:
        """Each buffer: its words in errors, its variable, and its axes."""
        layout = self._layout
        operands = [(i, a) for i, a in self._arguments if a.is_operand]
        for name, (i, a) in zip(layout.names, operands, strict=True):
            yield f"operand {name}", f"kit_in{i}", a
        names = layout.result_names
        for name, (variable, a) in zip(names, self._results, strict=True):
            yield f"result {name}", variable, a

    def _axes(self) -> Iterator[str]:
        """Declares the sizes of axes, and checks that arrays agree."""
        known: set[str] = set()
        checks = []
        for what, variable, a in self._buffers():
            for axis, size in enumerate(a.sizes, -len(a.sizes)):
                if size.isidentifier() and size not in known:
                    known.add(size)
                    yield (
                        f"const int64_t kit_axis_{size} = "
                        f"{variable}.dim({axis});"
                    )
                    continue
                checks.append(
                    f"kit::CheckSize({cpp.literal(what)}, {variable}, {axis}, "
                    f"{cpp.literal(size)}, {_size(size)});"
                )
        yield from checks

    def _counts(self) -> Iterator[str]:
        """The rows of the call, and the elements of a row of each array."""
        variable, a = self._results[0]
        yield (
            f"const int64_t kit_rows = {variable}.Product({variable}.rank() - "
            f"{len(a.sizes)});"
        )
        for _, variable, a in self._buffers():
            if a.sizes:
                yield (
                    f"const int64_t {variable}_size = kit::ElementsOf("
                    f"{variable}, {len(a.sizes)});"
                )

    def _loop(self) -> Iterator[str]:
        """The loop over rows."""
        longest = "1"
        for _, variable, a in self._buffers():
            if a.sizes:
                longest = f"kit::LargerOf({longest}, {variable}_size)"
        threads = "kit_threads"
        if not self._thread_safe:
            yield f"const kit::Lock kit_lock({LOCK});"
            threads = "kit::Threads(nullptr)"
        yield (
            f"{threads}.For(kit_rows, kit::CostOfRow({longest}), "
            "[&](int64_t kit_begin, int64_t kit_end) {"
        )
        for i, a in self._arguments:
            if a.kind in (Kind.SCRATCH, Kind.COPY):
                count = " * ".join(f"({_size(size)})" for size in a.sizes)
                yield (
                    f"const kit::Scratch<{cpp_type(a.dtype)}> kit_scratch{i}("
                    f"{count or 1});"
                )
        yield "for (int64_t kit_i = kit_begin; kit_i < kit_end; ++kit_i) {"
        for i, a in self._arguments:
            yield from self._prepare(i, a)
        yield from self._call()
        yield "}"
        yield "});"

    def _row(self, variable: str, a: Argument, is_shared: bool = False) -> str:
        """The address of an array's row."""
        if is_shared:
            return f"{variable}.data()"
        size = f" * {variable}_size" if a.sizes else ""
        return f"{variable}.data() + kit_i{size}"

    def _prepare(self, i: int, a: Argument) -> Iterator[str]:
        """What one parameter needs before the call for a row."""
        type_ = cpp_type(a.dtype)
        own, count = f"kit_at{i}", f"kit_out{i}_size" if a.sizes else "1"
        if a.is_result:
            variable = f"kit_out{i}"
            yield f"{type_}* const {own} = {self._row(variable, a)};"
        if a.kind == Kind.IN_OUT:
            row = self._row(f"kit_in{i}", a, i in self._shared)
            yield f"kit::CopyRow({own}, {row}, {count});"
        elif a.kind == Kind.COPY:
            row = self._row(f"kit_in{i}", a, i in self._shared)
            count = f"kit_in{i}_size" if a.sizes else "1"
            yield f"kit::CopyRow(kit_scratch{i}.data(), {row}, {count});"
        elif a.kind == Kind.RESULT and f"kit_out{i}" not in self._aliased:
            yield f"kit::Spoil({own}, {count});"
        elif a.kind == Kind.STATUS:
            yield f"{type_} {own} = 0;"
        elif a.kind == Kind.CONSTANT and a.parameter.type.is_pointer:
            if a.dtype == CHAR:
                text = cpp.literal(_characters(a.parameter.value))
                yield f"char {own}[] = {text};"
            else:
                yield f"{type_} {own} = {self._constant(i, a)};"

    def _constant(self, i: int, a: Argument) -> str:
        """The number that a parameter always gets."""
        value, type_ = a.parameter.value, cpp_type(a.dtype)
        if a.dtype == CHAR:
            return value
        if declarations.names_of(value) and a.dtype.kind in "iu":
            what = cpp.literal(a.parameter.name or f"parameter {i + 1}")
            return f"kit::SizeAs<{type_}>({what}, {_size(value)})"
        number = _size(value) if declarations.is_size(value) else value
        return f"static_cast<{type_}>({number})"

    def _given(self, i: int, a: Argument) -> str:
        """What the function gets as a parameter."""
        if a.kind == Kind.VALUE:
            return f"*({self._row(f'kit_in{i}', a, i in self._shared)})"
        if a.kind == Kind.OPERAND:
            return self._row(f"kit_in{i}", a, i in self._shared)
        if a.kind in (Kind.SCRATCH, Kind.COPY):
            return f"kit_scratch{i}.data()"
        if a.kind == Kind.STATUS:
            return f"&kit_at{i}"
        if a.kind == Kind.CONSTANT and not a.parameter.type.is_pointer:
            return self._constant(i, a)
        address = "&" if a.kind == Kind.CONSTANT and a.dtype != CHAR else ""
        return f"{address}kit_at{i}"

    def _call(self) -> Iterator[str]:
        """The call for a row, and what it returns."""
        given = ", ".join(self._given(i, a) for i, a in self._arguments)
        call = f"kit_function({given})"
        statuses = [
            f"kit_at{i}" for i, a in self._arguments if a.kind == Kind.STATUS
        ]
        if self._layout.returned:
            yield f"kit_out[kit_i] = {call};"
        elif self._layout.returns_status:
            yield f"const int64_t kit_status = {call};"
            statuses.insert(0, "kit_status")
        else:
            yield f"{call};"
        for status in statuses:
            yield f"if ({status} != 0) {{"
            if self._status == NAN:
                for variable, a in self._results:
                    count = f"{variable}_size" if a.sizes else "1"
                    row = self._row(variable, a)
                    yield f"kit::Spoil({row}, {count});"
            else:
                yield f"kit_failure.Set(kit_i, {status});"
            yield "}"


def _characters(value: str) -> str:
    """The characters between the quotes."""
    return value[1:-1]
