"""Says of a compiler's error in lanes what to write instead."""

from __future__ import annotations

import re

# What the error says -> what it means, and the remedy.
_REMEDIES = (
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
_LANES = re.compile(
    r"\b(Half)?Lanes<|\bLaneRow<|\bMask<|inline/(lane|refusals)|stack frame"
    r"|frame size|return-local-addr|return-stack-address|dangling|kit_row"
)


def explain(error: str, output: str) -> str:
    """The error with its remedy, if it is one of numbers in lanes.

    Args:
      error: the compiler's first error.
      output: all that it said: clang names types in notes below an error.
    """
    if not _LANES.search(output):
        return error
    remedy = next(
        (
            text
            for said in (error, output)
            for pattern, text in _REMEDIES
            if re.search(pattern, said)
        ),
        "",
    )
    if not remedy and not _LANES.search(error):
        return error
    means = remedy or "this is not the same for all rows"
    return f"{error}\nlanes=True: {means}; or leave lanes=True out"
