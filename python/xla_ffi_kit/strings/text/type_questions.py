"""Refuses strings that ask what their types are, where these are others.

In lanes and under a derivative, `T` and `A` are classes of the kit. What such a
class cannot do does not compile. But a string that asks whether `T` is a float,
or how many bytes it has, compiles, and computes something else. Compilers do
not see this, so the text is searched. Headers that a string includes are not
read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings.text.source import Place


@dataclasses.dataclass(frozen=True)
class Form:
    """What a string is compiled for.

    Attributes:
      option: as the author writes it, such as "lanes=True".
      number: what the author calls the type to compute in.
      has_halves: whether its numbers may be 16-bit floats.
    """

    option: str
    number: str
    has_halves: bool


# Where a part of the text asks, and the remedy, with {number} for Form.number.
_Finding = tuple[int, str]

# --- Types that stay what they are --------------------------------------------

_PLAIN = re.compile(r"\bkit::Plain<\s*\w+\s*>")
_PLAIN_NAME = "kit_plain"  # stands for these in the text that is searched
_BUILT_IN = (
    r"(?:(?:const|unsigned|signed|long|short|std::)\s*)*"
    r"(?:bool|char|int|long|short|float|double|unsigned|size_t|u?int\d+_t"
    rf"|ptrdiff_t|{_PLAIN_NAME})"
)
_ALL_BUILT_IN = re.compile(rf"\s*{_BUILT_IN}(?:\s*,\s*{_BUILT_IN})*\s*")

# --- Questions that a pattern finds -------------------------------------------

_TRAITS = (
    "same arithmetic class compound convertible floating_point fundamental "
    "integral literal_type object pod scalar signed standard_layout trivial "
    "trivially_copyable union unsigned"
).split()
_ALLOCATE = r"(?:malloc|calloc|realloc|aligned_alloc|alloca)\s*\("
# sizeof(table) / sizeof(table[0])
_SIZE_OF_OPERAND = r"\bsizeof\b\s*\(?\s*\*?[\w.\[\]]+\s*\)?"
_COUNT = re.compile(rf"{_SIZE_OF_OPERAND}\s*/\s*{_SIZE_OF_OPERAND}")
# Functions of the kit that C++ finds by the types of arguments.
_KIT_FUNCTIONS = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clamp copysign cos "
    "cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod hypot isfinite "
    "isinf isnan ldexp lgamma log log10 log1p log2 max min minmax nearbyint "
    "pow results rint round signbit sin sinh sqrt tan tanh tgamma trunc value "
    "where "
    "After Any Append BitsOf Bounded Chain Choice Chosen Count Gather Has "
    "IsFar Load MaxOf MinOf Polynomial Power Scale Scatter Select SignOf Store "
    "Times Transpose"
).split()


def _is_no_count(match: re.Match[str], form: Form) -> bool:
    """Whether a size is neither that of an allocation nor for a count."""
    at, text = match.start(), match.string
    if re.search(rf"{_ALLOCATE}[^;]*$", text[max(0, at - 200) : at]):
        return False
    counts = _COUNT.finditer(text)
    return not any(count.start() <= at < count.end() for count in counts)


def _is_rounded(match: re.Match[str], form: Form) -> bool:
    """Whether a number is no float."""
    return float(np.float32(match[1])) != float(match[1])


class _Question(NamedTuple):
    """A pattern, the remedy, and whether a match asks."""

    pattern: str
    remedy: str
    is_one: Callable[[re.Match[str], Form], bool] = lambda match, form: True


_PLAIN_INSTEAD = (
    "{number} is a class of the kit here; ask kit::Plain<{number}>, the type "
    "of its values"
)
_QUESTIONS = (
    _Question(
        rf"\bis_(?:{'|'.join(_TRAITS)})(?:_v)?\s*<(?!{_ALL_BUILT_IN.pattern}>)",
        _PLAIN_INSTEAD,
    ),
    _Question(
        r"\b(?:sizeof|alignof)\b(?!\s*\.\.\.)"
        rf"(?!\s*\(\s*{_BUILT_IN}\s*\**\s*\))",
        _PLAIN_INSTEAD,
        _is_no_count,
    ),
    _Question(
        r"\bnumeric_limits\s*<\s*T\s*>",
        "T is not the type of 16-bit floats here; ask numeric_limits<{number}>",
        lambda match, form: form.has_halves,
    ),
    _Question(  # a number as a branch of `?:`
        r"(?:\?|(?<!:):(?!:))\s*[-+]?((?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?"
        r"|\d+[eE][-+]?\d+)(?![\w.])",
        "this branch of ?: is a double, which is rounded to a float beside a "
        "number of the kit; write {number}(...) around it",
        _is_rounded,
    ),
    _Question(
        r"(?:\(\s*[AT]\s*\*\s*\)|<\s*[AT]\s*\*\s*>\s*\()\s*(?:std::)?"
        rf"{_ALLOCATE}(?![^;]*\bsizeof\s*\(?\s*(?:[AT]\b|\*))",
        "a number has another size than a float here; allocate count * "
        "sizeof({number}), or a std::vector<{number}>",
    ),
    _Question(  # what std::max returns is a copy of the kit's types
        r"&\s*\w+\s*=\s*(?:std::)?(?:max|min|minmax|clamp)\b"
        r"|\bauto\s+\w+\s*=\s*(?:std::)?minmax\b",
        "what std::max and its like return is a copy here, which does not "
        "change with its arguments; declare it as {number}",
    ),
    _Question(
        r"\bthread_local\b"
        r"|\bstatic\s+(?!const|inline|_?[Aa]ssert)[\w:<>, *&]+?\s\w+\s*[=;\[{]"
        r"|\bstatic\s+const\s+\w+\s+\w+\s*=[^;]*\w\s*\[",
        "what outlives a row has numbers of another one; declare it local, or "
        "static const with constants",
    ),
    _Question(
        r"[\w>&*]\s+(?<!return\s)(?<!else\s)"
        rf"({'|'.join(_KIT_FUNCTIONS)})\s*"
        r"\(\s*(?:const\s+)?\w[\w:<>]*\s*[&*]*\s+[&*]*\s*\w+[^;{}]*\)\s*"
        r"(?:noexcept\s*)?\{",
        "a function of this name is the kit's too, and C++ would choose that "
        "for a class of the kit; rename it",
    ),
    _Question(
        r"\bunion\b|\breinterpret_cast\b|\bbit_cast\b|\b__builtin_mem\w+"
        r"|\bstatic_cast\s*<[^>]*\b(?:void|char)\b[^>]*\*\s*>"
        rf"(?!\s*\(?\s*(?:std::)?{_ALLOCATE})"
        rf"|\((?:\s*const\b)?\s*(?:void|{_BUILT_IN})\s*"
        r"(?:const\s*)?[*&]+\s*\)"
        r"\s*[&\w(]",
        "{number} is a class of the kit here, whose bytes are not a float's; "
        "compute with its value",
    ),
)

# --- Questions by a name that the string declares -----------------------------

# A template that has another meaning for floats.
_SPECIALIZATION = re.compile(
    r"\btemplate\s*<\s*>[^;{(]*?\b(\w+)\s*<[^;{(>]*\b(?:float|double)\b"
)
# A function that takes any type.
_ANY_TYPE = re.compile(
    r"\btemplate\s*<[^;{}()]*>[^;{}()]*?\b(operator\s*\(\s*\)|\w+)\s*\("
    r"|\b(\w+)\s*\(\s*\.\.\.\s*\)"
)
_LAMBDA = r"\]\s*\(\s*(?:const\s+)?"


def check(
    name: str, form: Form, pieces: Iterable[tuple[str, Place | None]]
) -> None:
    """BuildError with the line if code asks what its types are.

    Args:
      name: the name of the operation.
      form: what it is compiled for.
      pieces: the author's code, and where that comes from.
    """
    pieces = list(pieces)
    texts = [cpp.without_comments(code) for code, _ in pieces]
    whole = "\n".join(texts)
    for text, (code, place) in zip(texts, pieces, strict=True):
        text = _PLAIN.sub(lambda m: _PLAIN_NAME.ljust(len(m[0])), text)
        findings = [
            *_by_patterns(text, form),
            *_by_specializations(text, whole),
            *_by_overloads(text, whole),
        ]
        for at, remedy in sorted(findings):
            number = text.count("\n", 0, at)
            where = f"line {number + 1}"
            if place is not None:
                where = f"{place.file}:{place.line + number}"
            line = code.splitlines()[number].strip()
            raise BuildError(
                f"{name}: {form.option}: {where}: `{line}`: "
                f"{remedy.format(number=form.number)}; or leave {form.option} "
                "out"
            )


def _by_patterns(text: str, form: Form) -> Iterator[_Finding]:
    for question in _QUESTIONS:
        for match in re.finditer(question.pattern, text):
            if question.is_one(match, form):
                yield match.start(), question.remedy


def _by_specializations(text: str, whole: str) -> Iterator[_Finding]:
    """Uses of templates that the whole text specializes for floats."""
    for match in _SPECIALIZATION.finditer(whole):
        uses = rf"\b{match[1]}\s*(?:<([^<>;]*(?:<[^<>;]*>)?[^<>;]*)>|(\())"
        for use in re.finditer(uses, text):
            if use[2] or not _ALL_BUILT_IN.fullmatch(use[1]):
                yield (
                    use.start(),
                    "{number} is a class of the kit here, which the "
                    "specialization for float or double does not serve; take "
                    "kit::Plain<{number}> as the argument of the template",
                )


def _by_overloads(text: str, whole: str) -> Iterator[_Finding]:
    """Overloads for floats of what the whole text has for any type."""
    begins = [
        rf"\b\w+[\s&*]+{re.escape(match[1] or match[2])}\s*\(\s*(?:const\s+)?"
        for match in _ANY_TYPE.finditer(whole)
    ]
    if re.search(rf"{_LAMBDA}auto\b", whole):
        begins.append(_LAMBDA)
    for begin in begins:
        for match in re.finditer(rf"{begin}(?:float|double)\b", text):
            yield (
                match.start(),
                "{number} is a class of the kit here, for which C++ chooses "
                "the template instead of this overload; choose within the "
                "template, by kit::Plain<{number}>",
            )
