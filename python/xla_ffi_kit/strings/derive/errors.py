"""Says of a compiler's error in a derivative what to write instead."""

from __future__ import annotations

import re

# What the error says -> the remedy.
_VALUE = (
    "write kit::value(x) where no derivative is meant, as for an index or a "
    "message"
)
_AUTO = (
    "declare variables and results of lambdas as A instead of auto, and write "
    "A(...) around the branches of `?:`, or kit::where(c, a, b)"
)
_REMEDIES = (
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
_NUMBER = re.compile(r"\b(Dual|Var|Expression)<")
_STACK = re.compile(r"stack frame size|the frame size of")


def explain(error: str, number: str) -> str:
    """The error with its remedy, if it is one of numbers with derivatives.

    Args:
      error: the compiler's.
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
    remedy = next(
        (text for pattern, text in _REMEDIES if re.search(pattern, error)),
        _VALUE,
    )
    told = re.sub(r"\bA\b", number, remedy)
    return f'{error}\nderivatives="kernel" takes types of the kit: {told}'
