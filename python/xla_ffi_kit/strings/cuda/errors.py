"""Explains errors of NVRTC in code that compiles on CPUs."""

from __future__ import annotations

import re

from xla_ffi_kit.strings.text import mixed_choice

# Part of an error -> what to do; {} is the pattern's group.
_ADVICE = (
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


def explain(error: str) -> str:
    """Returns the error and, if it is known, a second line with the remedy."""
    for pattern, advice in _ADVICE:
        found = re.search(pattern, error)
        if found:
            group = found[1] if found.groups() else ""
            return f"{error}\n{advice.format(group)}"
    return mixed_choice.explain(error)
