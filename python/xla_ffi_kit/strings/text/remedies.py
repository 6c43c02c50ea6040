"""What to write instead, where a string does not compile.

There is a table for each kind of code that a string is compiled as: a pattern
of what gcc, clang or NVRTC print -> the remedy. The first one that matches
counts. xla_ffi_kit.compile.messages takes the error out of the output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_Table = Iterable[tuple[str, str]]

_OF_STRINGS = (
    (
        r"(operands to .\?:|conditional expression is ambig|"
        r"ambiguous \"\?\" op).*kit::Half<",
        "`?:` between a 16-bit float and an integer has no type in C++: write "
        "0.0f for 0, or kit::where(c, x, 0)",
    ),
)
# gcc's note names the header that a function of C++'s library needs.
_HEADER = re.compile(r"is defined in header '<(\w+)>'")

# --- Numbers in lanes ---------------------------------------------------------

_OF_LANES = (
    (
        r"does not choose between integers",
        "write A(1) and A(0), where a number in lanes is meant",
    ),
    (
        r"stl_algo|predefined_ops|__algorithm/",
        "an algorithm of C++ compares and branches, which is not the same for "
        "all rows; write std::max and std::min of two, or kit::where",
    ),
    (
        r"constexpr|constant expression|literal type",
        "a number in lanes is no constant of the compiler; write const A",
    ),
    (
        r"deleted.*operator ?'?(&&|\|\|)",
        "C++ computes the right side of && and || only where the left one does "
        "not decide, which is not the same for all rows; write & and |",
    ),
    (
        r"-Wformat\]|-Werror=format|variadic",
        "a number in lanes is one of each row, which printf does not know",
    ),
    (
        r"\bMask<|'operator bool' has been",
        "a branch on data is not the same for all rows; choose with "
        "kit::where(condition, a, b), of which both are computed",
    ),
    (
        r"stack frame|frame size|frame-larger-than",
        "local arrays of lanes are larger than a thread's stack; make them a "
        "std::vector<A>",
    ),
    (
        r"\bmemcpy|\bmemmove|\bmemset|\bbcopy|\bbzero|class-memaccess"
        r"|nontrivial-memcall",
        "a number in lanes is one of each row, not the bytes of a float; copy "
        "with std::copy or a loop",
    ),
    (
        r"\bAddress<",
        "a number in lanes is one of each row, and its address is no other "
        "pointer's than A*",
    ),
    (
        r"\bunion\b|nontrivial-destructor|has a non-trivial (destr|cop)|::~",
        "a number in lanes is one of each row, and not the bytes of a float, "
        "which a union reads",
    ),
    (
        r"deleted (function|operator).*(\bdouble|operator ?[-+*/<>=!])"
        r"|deleted operator '[-+*/<>=!]"
        r"|no matching function.*\b(double|int|long|unsigned)\b"
        r"|\b[XY] = (double|int|long|unsigned)\b",
        "in lanes, a double does not stand beside a float, where C++ computes "
        "in double, as functions of two arguments do with an integer; write "
        "0.5f or A(0.5), and A(2) for 2",
    ),
    (
        r"return-local-addr|return-stack-address|dangling",
        "an operand's element is a number of its own here; return it by value, "
        "as auto",
    ),
    (
        r"operand types are|invalid operands",
        "declare what stands beside a number in lanes as A, not as float",
    ),
    (
        r"subscript|operator\[\]|cannot convert|invalid .*cast"
        r"|no viable conv|no matching conv",
        "a number in lanes does not become one number, as for an index",
    ),
)
# What the output has where an error may be about numbers in lanes. Other errors
# of such a string are shown as they are.
_IS_OF_LANES = re.compile(
    r"\b(Half)?Lanes<|\bMask<|strings/(lane|refusals)|stack frame|frame size"
    r"|return-local-addr|return-stack-address|dangling|kit_string"
)

# --- Numbers with slopes ------------------------------------------------------

_VALUE = (
    "write kit::value(x) where no derivative is meant, as for an index or a "
    "message"
)
_AUTO = (
    "declare variables and results of lambdas as A instead of auto, and write "
    "A(...) around the branches of `?:`, or kit::where(c, a, b)"
)
_OF_SLOPES = (
    (
        r"Jet<(.|\n)*Var<|Var<(.|\n)*Jet<",
        "the numbers in a step of kit::scan have a type of their own: begin it "
        "as [&]<typename N>(int64_t i, N& state), declare its numbers as N, "
        "and let what it calls be a template",
    ),
    (
        r"could not convert .*Expression|Expression<.*> to .*Expression<",
        "a helper's template takes the type of an expression here; call it as "
        "f<A>(x - y), or let it return auto",
    ),
    (r"\bmodf\b", "write std::trunc(x), and x - std::trunc(x)"),
    (
        r"-Wformat\]|-Werror=format|variadic",
        "write double(kit::value(x)) in the arguments of printf",
    ),
    (
        r"constexpr|constant expression|literal type",
        "a number that knows its derivative is no constant of the compiler; "
        "write const A",
    ),
    (
        r"\bmem(cpy|move|set|cmp)\b|memaccess|memcall|\bunion\b"
        r"|\bAddress<",
        "a number with slopes is not the bytes of a float; copy with std::copy "
        "or a loop, and its address is no other pointer's than A*",
    ),
    (
        r"operands to .*\?:|incompatible operand types|inconsistent|deduced"
        r"|call to .kit::Expression|kit::Expression.* is not|ambiguous",
        _AUTO,
    ),
    (
        r"to .(const )?(double|float). in (init|assign|return)"
        r"|no viable conversion .* to .(const )?(double|float)"
        r"|cast .* to (type )?.(double|float)"
        r"|operand types are .(double|float). and",
        "declare it as A instead of double or float; or " + _VALUE,
    ),
    (
        r"must be constructible|is_constructible"
        r"|std::(vector|array|deque|list|queue|stack)<(double|float)\b",
        "make it a container of A instead of double or float; or " + _VALUE,
    ),
    (
        r"to .(const )?(double|float)\b|no matching function|no known conv",
        "take a function of std:: that docs/derivatives.md lists, or a "
        "template, as no C function computes a derivative; or " + _VALUE,
    ),
    (
        r"cannot convert|invalid .*cast|subscript|operator\[\]|no viable conv",
        "a number that knows its derivative does not become another: " + _VALUE,
    ),
)
# What a static_assert of numbers.h has said.
_HAS_REMEDY = "a double does not stand beside a float"
_NUMBER = re.compile(r"\b(Dual|Jet|Var|Expression)<")
_STACK = re.compile(r"stack frame size|the frame size of")

# --- CUDA ---------------------------------------------------------------------

# {} is the pattern's group.
_OF_CUDA = (
    (
        r"could not open source file \"([^\"]+)\"",
        "there is no header {} on CUDA: of C++'s standard library there are "
        "functions of <cmath>, <cstdint>, <limits>, <type_traits>, <utility>, "
        "<array> and some of <algorithm> and <numeric>; write what is needed "
        "into `before`",
    ),
    (
        r"namespace \"std\" has no member (?:template )?\"(\w+)\"",
        "there is no std::{} on CUDA: write it into `before`",
    ),
    (
        r"does not support exception handling",
        "a GPU throws nothing: give what is wrong a value of the result, such "
        "as NaN",
    ),
    (
        r"<kernel of \w+>\(1\): error:(?:.|\n)*static_cast",
        "the kernel takes other parameters: for each operand a kit::In<T>, "
        "then the attributes, then for each result a kit::Out<T>, as the line "
        "above has them",
    ),
    (
        r"kit::Element<",
        "on CUDA a result's element is no reference: write `T v = out[i]` for "
        "`auto v = out[i]`, and `out[i] = v` for what changes it",
    ),
    (
        r"(?:class|namespace) \"kit(?:::\w+(?:<.*>)?)?\" has no member "
        r"\"(\w+)\"",
        "kit has no {} on CUDA",
    ),
)


def of_string(error: str) -> str:
    """The error, and the remedy if it is known."""
    return _joined(error, _remedy(_OF_STRINGS, error))


def of_lanes(error: str, output: str) -> str:
    """The same, if it may be one of numbers in lanes.

    Args:
      error: the compiler's first error.
      output: all that it printed: clang names types in notes below an error.
    """
    if not _IS_OF_LANES.search(output):
        return error
    remedy = _remedy(_OF_LANES, error) or _remedy(_OF_LANES, output)
    if not remedy and not _IS_OF_LANES.search(error):
        return error
    remedy = remedy or "this is not the same for all rows"
    return f"{error}\nlanes=True: {remedy}; or leave lanes=True out"


def of_slopes(error: str, number: str) -> str:
    """The same, if it may be one of numbers with slopes.

    Args:
      error: the compiler's first error.
      number: what the author calls the type to compute in, in place of A.
    """
    if _STACK.search(error):
        return (
            f'{error}\nderivatives="kernel": local arrays of numbers with '
            "slopes are larger than a thread's stack; make them a "
            f"std::vector<{number}>"
        )
    if not _NUMBER.search(error) or _HAS_REMEDY in error:
        return error
    remedy = re.sub(r"\bA\b", number, _remedy(_OF_SLOPES, error) or _VALUE)
    return f'{error}\nderivatives="kernel" takes types of the kit: {remedy}'


def of_cuda(error: str) -> str:
    """The same of NVRTC's error, in code that compiles on CPUs."""
    return _joined(error, _remedy((*_OF_CUDA, *_OF_STRINGS), error))


def missing_header(output: str) -> str | None:
    """The header of C++'s standard library that gcc says is missing."""
    note = _HEADER.search(output)
    return note and note[1]


def _remedy(table: _Table, text: str) -> str:
    """The remedy of the first pattern that matches, or nothing."""
    for pattern, remedy in table:
        match = re.search(pattern, text)
        if match:
            return remedy.format(*match.groups())
    return ""


def _joined(error: str, remedy: str) -> str:
    return f"{error}\n{remedy}" if remedy else error
