"""The C++ file around a function, and the places of its parts."""

from __future__ import annotations

import collections
import dataclasses
import itertools
import linecache
import re
import types
from collections.abc import Callable, Sequence

from xla_ffi_kit.compile import cpp
from xla_ffi_kit.strings.text import remedies

# How rows run that have no lanes, as `Source.how` begins.
ROW_BY_ROW = "row by row"
# The export of libraries in lanes: how many each instance has, 1 for one row
# after the other.
LANES = "XlaFfiKit_lanes"
# A number in lanes has up to 64 bytes, and one with slopes more: an array that
# fits into a thread's stack as floats may not as numbers.
_STACK_BYTES = 4 << 20
STACK_FLAGS = (
    # As gcc has it; clang knows the first alone: refusals.h.
    f"-Wframe-larger-than={_STACK_BYTES}",
    f"-Werror=frame-larger-than={_STACK_BYTES}",
    "-Wno-unknown-warning-option",
)
# gcc fuses products and sums for every width of vectors, so that a row has the
# same bits alone and among others. clang has no such option, and does the same.
LANES_FLAGS = (
    *STACK_FLAGS,
    "--param=avoid-fma-max-bits=0",
    "-Wno-unused-command-line-argument",
)
_SYMBOL = "XlaFfiKit_Inline"
# Names in generated code begin with OWN, on CPUs and on CUDA; an author's name
# must not. Those of the handler's arrays and attributes begin with OF.
OWN = "kit_"
OF = "kit_of_"
# What has the author's code as a member, for rows and for derivatives.
STRUCT = f"{OWN}string"
# The exports: the table, the parallel loop's variable, the handler.
EXPORTS = ("XlaFfiKit_*",)

# --- Places -------------------------------------------------------------------

# Ends the directives that say where code stands, which the cache does not hash.
_PLACE = "  // the author's place"
_DIRECTIVE = re.compile(rf"^#line .*{re.escape(_PLACE)}\n", re.MULTILINE)


def without_places(text: str) -> str:
    """Returns generated code without the directives for its places."""
    return _DIRECTIVE.sub("", text)


@dataclasses.dataclass(frozen=True)
class Place:
    """The place in a user's file at which a piece of C++ begins."""

    file: str
    line: int

    def directive(self) -> str:
        """Returns the directive by which the compiler names that place."""
        return f"#line {self.line} {cpp.literal(self.file)}{_PLACE}\n"


def place_of(code: str, frame: types.FrameType | None) -> Place:
    """Returns where a string that the code of `frame` passes is in its file.

    The string may be written in the call or in a variable before it. It may be
    indented further, and parts may have been put into it. A string that is not
    found has line numbers of its own.
    """
    if frame is None:
        return Place("<string of C++>", 1)
    file, (begin, end) = frame.f_code.co_filename, _lines_of_call(frame)
    file_lines = linecache.getlines(file, frame.f_globals)
    numbers = collections.defaultdict(list)
    for number, line in enumerate(file_lines, 1):
        numbers[line.strip()].append(number)
    code_lines = [line.strip() for line in code.splitlines()]
    # Each line of the string votes for the places where it begins there.
    votes: collections.Counter[int] = collections.Counter()
    for i, line in enumerate(code_lines):
        if not line:
            continue
        at = numbers[line]
        if i in (0, len(code_lines) - 1):  # quotes may stand beside it
            is_at = _end_matcher(line, i == 0, i == len(code_lines) - 1)
            at = [n for n, text in enumerate(file_lines, 1) if is_at(text)]
        votes.update(number - i for number in at)
    most = max(votes.values(), default=0)
    if 2 * most <= sum(map(bool, code_lines)):
        return Place(f"<string of C++ at {file}:{begin}>", 1)
    # Among equal ones, take that of the call, else the last one before.
    return Place(
        file,
        max(
            (line for line, count in votes.items() if count == most),
            key=lambda line: (begin <= line <= end, line < begin, line),
        ),
    )


def _end_matcher(
    line: str, is_first: bool, is_last: bool
) -> Callable[[str], object]:
    """Whether a file's line has the first or last line of a string, or both."""
    quote = r"['\"]"
    begin = rf"(^|{quote})" if not is_last else quote if is_first else "^"
    end = rf"({quote}|$)" if not is_first else quote if is_last else "$"
    pattern = re.compile(rf"{begin}\s*{re.escape(line)}\s*{end}")
    return lambda text: line in text and pattern.search(text)


def _lines_of_call(frame: types.FrameType) -> tuple[int, int]:
    """The first and the last line of the call that a frame is at."""
    positions = itertools.islice(
        frame.f_code.co_positions(), frame.f_lasti // 2, None
    )
    first, last, _, _ = next(positions, (None,) * 4)
    return first or frame.f_lineno, last or first or frame.f_lineno


# --- The file -----------------------------------------------------------------


def _remedy(error: str, output: str) -> str:
    return remedies.of_string(error)


@dataclasses.dataclass(frozen=True)
class Source:
    """A function in C++, and the operation's names of its parameters.

    Attributes:
      name: the name of the operation.
      code: C++ with the function `function` in it.
      function: the function's or function template's name.
      instances: template arguments of each instance; none for a function.
      operands: names of the operands.
      attributes: names of the attributes.
      place: where `code` comes from.
      header: the kit's header that the code needs beside kit.h. It stands
        before the author's code, whose templates find the functions of std::
        that are declared there.
      including: how an author includes the header {}.
      how: how it runs the rows of a call, in a few words.
      results: names of the results; none if only the C++ says how many.
      shapes: the shapes of operands and results as a signature has them, with
        the number of their kernel axes, "(..., a)" and 1; None for any shape.
        None if there are none to check.
      flags: what it is compiled with, besides the author's flags.
      remedy: a compiler's error, with what to write instead, from that error
        and all that the compiler printed.
    """

    name: str
    code: str
    function: str
    instances: Sequence[str]
    operands: Sequence[str]
    attributes: Sequence[str]
    place: Place
    header: str = "xla_ffi/strings/rows.h"
    including: str = "begin the code with {}"
    how: str = "one call for all rows"
    results: Sequence[str] = ()
    shapes: Sequence[tuple[str, int] | None] | None = None
    flags: Sequence[str] = ()
    remedy: Callable[[str, str], str] = _remedy

    @property
    def has_complex(self) -> bool:
        """Whether it is compiled for complex numbers."""
        return any("std::complex" in types for types in self.instances)

    def text(self, with_place: bool = True) -> str:
        """Returns the file to compile; the cache hashes it without the place.

        A function that moves within its file is the same function.
        """
        functions = [f"{self.function}<{i}>" for i in self.instances]
        name = cpp.literal(self.name)
        arguments = " ".join(self.operands)
        if self.results:
            arguments += f" -> {' '.join(self.results)}"
        names = [
            name,
            cpp.literal(arguments),
            cpp.literal(" ".join(self.attributes)),
        ]
        shapes = ""
        if self.shapes is not None:
            names.append("kit_shapes")
            rows = ", ".join(map(_shape, self.shapes))
            shapes = f"static constexpr kit::Shape kit_shapes[] = {{{rows}}};\n"
        glue = Place(self._glue(), 1)
        text = "".join(
            [
                '#include "xla_ffi/core/define_table.h"\n',
                '#include "xla_ffi/strings/kit.h"\n',
                f'#include "{self.header}"\n',
                "#include <complex>\n" * self.has_complex,
                self.place.directive(),
                self.code,
                "\n",
                glue.directive(),
                shapes,
                f"static constexpr kit::Names {_SYMBOL}_names = "
                f"{{{', '.join(names)}}};\n",
                f"KIT_DEFINE_HANDLER_OF({_SYMBOL}, "
                f"{', '.join(functions) or self.function});\n",
                f"XLA_FFI_KIT_DEFINE_TABLE({name}, "
                f"XLA_FFI_KIT_HANDLER_WITH_SIGNATURE({name}, {_SYMBOL}));\n",
            ]
        )
        return text if with_place else without_places(text)

    def _glue(self) -> str:
        return f"<handler of {self.name}>"

    def with_remedy(self, error: str, output: str) -> str:
        """A compiler's error; in generated code it is about the function.

        Args:
          error: the error.
          output: all that the compiler printed.
        """
        header = remedies.missing_header(output)
        if header:
            return f"{error}\n{self.including.format(f'#include <{header}>')}"
        if self._glue() not in error:
            return self.remedy(error, output)
        expected = f"a function {self.function}(), not a template"
        if self.instances:
            expected = (
                f"a function template {self.function}(), for the `dtypes` "
                f"{', '.join(self.instances)}"
            )
        return f"{error}\nexpected {expected}"


def _shape(shape: tuple[str, int] | None) -> str:
    if shape is None:
        return "{nullptr, XlaFfiKit_Batch_NONE, 0}"
    text, sizes = shape
    batch = "ALL" if "..." in text else "NONE"
    return f"{{{cpp.literal(text)}, XlaFfiKit_Batch_{batch}, {sizes}}}"
