"""Says what to write for a `?:` of a 16-bit float and an integer."""

from __future__ import annotations

import re

# As gcc, clang and NVRTC have it.
_ERROR = re.compile(
    r"(operands to .\?:|conditional expression is ambig|ambiguous \"\?\" op)"
    r".*kit::Half<"
)
_REMEDY = (
    "`?:` between a 16-bit float and an integer has no type in C++: write 0.0f "
    "for 0, or kit::where(c, x, 0)"
)


def explain(error: str, output: str = "") -> str:
    """The error of a compiler, with the remedy if it is about such a `?:`."""
    return f"{error}\n{_REMEDY}" if _ERROR.search(error) else error
