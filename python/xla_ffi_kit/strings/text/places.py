"""Finds a string of C++ in an author's files, for the compiler's errors."""

from __future__ import annotations

import collections
import itertools
import linecache
import re
import types
from collections.abc import Callable

from xla_ffi_kit.strings.text.source import Place


def place_of(code: str, frame: types.FrameType | None) -> Place:
    """Returns where a string that the code of `frame` passes is in its file.

    The string may be written in the call or in a variable before it. It may be
    indented further, and parts may have been put into it. A string that is not
    found has line numbers of its own.
    """
    if frame is None:
        return Place("<string of C++>", 1)
    file, (begin, end) = frame.f_code.co_filename, _lines_of_call(frame)
    lines = linecache.getlines(file, frame.f_globals)
    numbers = collections.defaultdict(list)
    for number, line in enumerate(lines, 1):
        numbers[line.strip()].append(number)
    wanted = [line.strip() for line in code.splitlines()]
    # Each line of the string votes for the places where it begins there.
    votes: collections.Counter[int] = collections.Counter()
    for i, line in enumerate(wanted):
        if not line:
            continue
        found = numbers[line]
        if i in (0, len(wanted) - 1):  # quotes may stand beside it
            at_end = _at_end(line, i == 0, i == len(wanted) - 1)
            found = [n for n, text in enumerate(lines, 1) if at_end(text)]
        votes.update(number - i for number in found)
    best = max(votes.values(), default=0)
    if 2 * best <= sum(map(bool, wanted)):
        return Place(f"<string of C++ at {file}:{begin}>", 1)
    # Among equal ones, take that of the call, else the last one before.
    return Place(
        file,
        max(
            (line for line, had in votes.items() if had == best),
            key=lambda line: (begin <= line <= end, line < begin, line),
        ),
    )


def _at_end(
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
