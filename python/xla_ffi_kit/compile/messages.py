"""Which lines an author is shown of what a compiler prints.

The compilers are gcc, clang and NVRTC. What to write instead is not known
here, but in strings/text/remedies.py.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

# A sentence of one of the kit's own assertions.
_ASSERTION = re.compile(
    r".*xla_ffi/strings/.*static assertion failed"
    r"(?: due to requirement '.*')?: "
    r"\"?([^\"\n]*)"
)
# Places that need a template or a function. gcc prints them before the error
# that they lead to, clang behind it, and both behind it those of macros.
_NEEDED_BEFORE = re.compile(r": +(required from|in .constexpr. expansion of)")
_NEEDED_BEHIND = re.compile(
    r"note: .*(requested here|in expansion of macro|from macro)"
)
# A compiler that failed for another reason than its input. Lines of the input,
# which may have the same words, are indented.
_INTERRUPTION = re.compile(
    r"^\S.*(?:Killed|Terminated|terminated by signal|out of memory"
    r"|instance of .std::bad_alloc|[Vv]irtual memory exhausted"
    r"|[Cc]annot allocate memory|No space left on device|Disk quota exceeded"
    r"|Too many open files|[Ii]nput/output error|internal compiler error"
    r"|PLEASE submit a bug report)",
    re.MULTILINE,
)
# Where no author writes: the kit's headers, the compiler's, generated code.
_IN_HEADER = re.compile(
    r"[^:]*(xla_ffi/strings/|/c\+\+/|/libcxx/)|<(derivative|handler|loop) of "
)
# A linker that failed says why, and then its driver says that it failed.
_SUMMARY = re.compile(
    r"collect2: error: |.*: error: linker command failed "
    r"|compilation terminated"
)
_LAST_LINES = 5  # are shown where no line is an error


def first_error(output: str) -> str:
    """The first error with the lines of code that the compiler shows of it.

    Of one of the kit's own assertions it is the sentence alone. Before either
    stands the author's line that leads to it, if the error is in a header.
    """
    lines = output.strip().splitlines()
    lines = [line for line in lines if not _SUMMARY.match(line)] or lines
    for i, line in enumerate(lines):
        if "error:" not in line and "undefined " not in line:
            continue
        error = [line, *_code_below(lines, i)]
        if assertion := _ASSERTION.match(line):
            error = [assertion[1]]
        text = "\n".join([*_author_line(lines, i), *error])
        if re.match("<loop of .*(expected|before|end of)", text):
            text += "; are the brackets of the string balanced?"
        return text
    return "\n".join(lines[-_LAST_LINES:]) or "the compiler said nothing"


def first_nvrtc_error(log: str) -> str:
    """The same of NVRTC's log; "" if that is empty."""
    lines = log.splitlines()
    for i, line in enumerate(lines):
        if re.search(r"\berror:", line):
            return "\n".join([line, *_code_below(lines, i)])
    return "\n".join(lines[-_LAST_LINES:])


def until_second_error(output: str) -> str:
    """What belongs to the first error; clang cannot be told to stop there."""
    errors = [*re.finditer(r"^.*\berror: ", output, re.MULTILINE)]
    return output[: errors[1].start()] if len(errors) > 1 else output


def is_interruption(output: str) -> bool:
    """Whether the compiler failed for another reason than its input."""
    return _INTERRUPTION.search(output) is not None


def _code_below(lines: Sequence[str], i: int) -> list[str]:
    """The code that a compiler shows below line `i`, and a mark in it."""
    below = lines[i + 1 : i + 4]
    return [*itertools.takewhile(lambda line: line.startswith(" "), below)]


def _author_line(lines: Sequence[str], i: int) -> list[str]:
    """The author's line that makes a header fail in line `i`, if one does."""
    if not _IN_HEADER.match(lines[i]):
        return []
    places = [line for line in lines[:i] if _NEEDED_BEFORE.search(line)]
    places += [line for line in lines[i:] if _NEEDED_BEHIND.search(line)]
    return [line for line in places if not _IN_HEADER.match(line)][:1]
