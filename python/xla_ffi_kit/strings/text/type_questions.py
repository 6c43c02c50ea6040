"""Refuses strings that ask what their types are, where these are others.

In lanes and under a derivative, `T` and `A` are classes of the kit. What such a
class cannot do does not compile. But a string that asks whether `T` is a float,
or how many bytes it has, compiles, and computes something else. Compilers do
not see this, so it is found in the text. Headers that a string includes are not
read.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

import numpy as np

from xla_ffi_kit.compile import cpp
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings.text.source import Place

# What stays what it is.
_PLAIN = re.compile(r"\bkit::Plain<\s*\w+\s*>")
_BUILT_IN = (
    r"(?:(?:const|unsigned|signed|long|short|std::)\s*)*"
    r"(?:bool|char|int|long|short|float|double|unsigned|size_t|u?int\d+_t"
    r"|ptrdiff_t|kit_plain)"
)
_TRAITS = (
    "same arithmetic class compound convertible floating_point fundamental "
    "integral literal_type object pod scalar signed standard_layout trivial "
    "trivially_copyable union unsigned"
).split()
_ALL_BUILT_IN = re.compile(rf"\s*{_BUILT_IN}(?:\s*,\s*{_BUILT_IN})*\s*")
_TRAIT = re.compile(
    rf"\bis_(?:{'|'.join(_TRAITS)})(?:_v)?\s*<(?!{_ALL_BUILT_IN.pattern}>)"
)
_MEMORY = (
    r"\s*\(?\s*(?:std::)?(?:malloc|calloc|realloc|aligned_alloc|alloca)\s*\("
)
_ALLOCATES = rf"{_MEMORY}[^;]*$"
_SIZE = re.compile(
    rf"\b(?:sizeof|alignof)\b(?!\s*\.\.\.)(?!\s*\(\s*{_BUILT_IN}\s*\**\s*\))"
)
# sizeof(table) / sizeof(table[0])
_OPERAND = r"\bsizeof\b\s*\(?\s*\*?[\w.\[\]]+\s*\)?"
_COUNT = re.compile(rf"{_OPERAND}\s*/\s*{_OPERAND}")
_LIMITS = re.compile(r"\bnumeric_limits\s*<\s*T\s*>")
# The name of a template that has another meaning for floats.
_SPECIALIZATION = re.compile(
    r"\btemplate\s*<\s*>[^;{(]*?\b(\w+)\s*<[^;{(>]*\b(?:float|double)\b"
)
# The names of functions that take any type.
_ANY_TYPE = re.compile(
    r"\btemplate\s*<[^;{}()]*>[^;{}()]*?\b(operator\s*\(\s*\)|\w+)\s*\("
    r"|\b(\w+)\s*\(\s*\.\.\.\s*\)"
)
_LAMBDA = r"\]\s*\(\s*(?:const\s+)?"
# A reference to what std::max returns, which is a copy of the kit's types.
_REFERENCE = re.compile(
    r"&\s*\w+\s*=\s*(?:std::)?(?:max|min|minmax|clamp)\b"
    r"|\bauto\s+\w+\s*=\s*(?:std::)?minmax\b"
)
_STATIC = re.compile(
    r"\bthread_local\b"
    r"|\bstatic\s+(?!const|inline|_?[Aa]ssert)[\w:<>, *&]+?\s\w+\s*[=;\[{]"
    r"|\bstatic\s+const\s+\w+\s+\w+\s*=[^;]*\w\s*\["
)
# Functions of the kit that C++ finds by the types of arguments.
_NAMES = (
    "abs acos acosh asin asinh atan atan2 atanh cbrt ceil clamp copysign cos "
    "cosh erf erfc exp exp2 expm1 fabs floor fma fmax fmin fmod hypot isfinite "
    "isinf isnan ldexp lgamma log log10 log1p log2 max min minmax nearbyint "
    "pow results rint round signbit sin sinh sqrt tan tanh tgamma trunc value "
    "where "
    "After Any Append BitsOf Bounded Chain Choice Chosen Count Gather Has "
    "IsFar Load MaxOf MinOf Polynomial Power Scale Scatter Select SignOf Store "
    "Times Transpose"
).split()
_OWN_FUNCTION = re.compile(
    rf"[\w>&*]\s+(?<!return\s)(?<!else\s)({'|'.join(_NAMES)})\s*"
    r"\(\s*(?:const\s+)?\w[\w:<>]*\s*[&*]*\s+[&*]*\s*\w+[^;{}]*\)\s*"
    r"(?:noexcept\s*)?\{"
)
_BYTES = re.compile(
    r"\bunion\b|\breinterpret_cast\b|\bbit_cast\b|\b__builtin_mem\w+"
    r"|\bstatic_cast\s*<[^>]*\b(?:void|char)\b[^>]*\*\s*>"
    rf"(?!{_MEMORY})|\((?:\s*const\b)?\s*(?:void|{_BUILT_IN})\s*"
    r"(?:const\s*)?[*&]+\s*\)"
    r"\s*[&\w(]"
)

_ASKS = (
    "{number} is a class of the kit here; ask kit::Plain<{number}>, the type "
    "of its values"
)

_ALLOCATION = re.compile(
    r"(?:\(\s*[AT]\s*\*\s*\)|<\s*[AT]\s*\*\s*>\s*\()\s*(?:std::)?"
    r"(?:malloc|calloc|realloc|aligned_alloc|alloca)\s*\("
    r"(?![^;]*\bsizeof\s*\(?\s*(?:[AT]\b|\*))"
)
# A number as a branch of `?:`.
_BRANCH = re.compile(
    r"(?:\?|(?<!:):(?!:))\s*[-+]?((?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?"
    r"|\d+[eE][-+]?\d+)(?![\w.])"
)

_REFUSED = (
    (
        _ALLOCATION,
        "a number has another size than a float here; allocate "
        "count * sizeof({number}), or a std::vector<{number}>",
    ),
    (
        _REFERENCE,
        "what std::max and its like return is a copy here, which does not "
        "change with its arguments; declare it as {number}",
    ),
    (
        _STATIC,
        "what outlives a row has numbers of another one; declare it local, or "
        "static const with constants",
    ),
    (
        _OWN_FUNCTION,
        "a function of this name is the kit's too, and C++ would choose that "
        "for a class of the kit; rename it",
    ),
)


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
        text = _PLAIN.sub(lambda m: "kit_plain".ljust(len(m[0])), text)
        for at, remedy in sorted(_found(text, whole, form)):
            number = text.count("\n", 0, at)
            where = f"line {number + 1}"
            if place is not None:
                where = f"{place.file}:{place.line + number}"
            line = code.splitlines()[number].strip()
            told = remedy.format(number=form.number)
            raise BuildError(
                f"{name}: {form.option}: {where}: `{line}`: {told}; or leave "
                f"{form.option} out"
            )


def _found(text: str, whole: str, form: Form) -> Iterator[tuple[int, str]]:
    """Where a part of the whole text asks, and the remedy."""
    for match in _TRAIT.finditer(text):
        yield match.start(), _ASKS
    counts = [match.span() for match in _COUNT.finditer(text)]
    for match in _SIZE.finditer(text):
        at = match.start()
        before = text[max(0, at - 200) : at]
        if re.search(_ALLOCATES, before):
            continue
        if not any(begin <= at < end for begin, end in counts):
            yield at, _ASKS
    if form.has_halves:
        for match in _LIMITS.finditer(text):
            yield (
                match.start(),
                "T is not the type of 16-bit floats here; ask "
                "numeric_limits<{number}>",
            )
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
    overloads = [
        rf"\b\w+[\s&*]+{re.escape(match[1] or match[2])}\s*\(\s*(?:const\s+)?"
        for match in _ANY_TYPE.finditer(whole)
    ]
    if re.search(rf"{_LAMBDA}auto\b", whole):
        overloads.append(_LAMBDA)
    for start in overloads:
        overload = re.compile(rf"{start}(?:float|double)\b")
        for other in overload.finditer(text):
            yield (
                other.start(),
                "{number} is a class of the kit here, for which C++ chooses "
                "the template instead of this overload; choose within the "
                "template, by kit::Plain<{number}>",
            )
    for match in _BRANCH.finditer(text):
        if float(np.float32(match[1])) != float(match[1]):
            yield (
                match.start(),
                "this branch of ?: is a double, which is rounded to a float "
                "beside a number of the kit; write {number}(...) around it",
            )
    for pattern, remedy in _REFUSED:
        for match in pattern.finditer(text):
            yield match.start(), remedy
    for match in _BYTES.finditer(text):
        yield (
            match.start(),
            "{number} is a class of the kit here, whose bytes are not a "
            "float's; compute with its value",
        )
