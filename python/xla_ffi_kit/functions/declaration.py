"""Reads the declaration of a C function, "double(double x, int32_t n)"."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

# C's names of numbers where `long` has 64 bits. A plain char has no sign that
# all machines agree on.
_TYPES = {
    "double": "float64",
    "float": "float32",
    "bool": "bool",
    "_Bool": "bool",
    "signed char": "int8",
    "unsigned char": "uint8",
    "short": "int16",
    "short int": "int16",
    "unsigned short": "uint16",
    "unsigned short int": "uint16",
    "int": "int32",
    "unsigned int": "uint32",
    "unsigned": "uint32",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "long long int": "int64",
    "unsigned long": "uint64",
    "unsigned long int": "uint64",
    "unsigned long long": "uint64",
    "unsigned long long int": "uint64",
    "size_t": "uint64",
    "ptrdiff_t": "int64",
    **{f"int{bits}_t": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}_t": f"uint{bits}" for bits in (8, 16, 32, 64)},
}
NUMBERS = frozenset(_TYPES.values())
_MOST_WORDS = 4
# What no parameter is called: "long double" is no long of that name.
_WORDS = {word for name in _TYPES for word in name.split()} | {"void", "char"}
_COMPLEX = ("complex", "_Complex")
_KNOWN = "double, float, bool, int, long, size_t, int32_t and the like"
# Those of messages; of other dtypes, NumPy's with _t.
_C_NAMES = {
    "float64": "double",
    "float32": "float",
    "bool": "bool",
    "int32": "int",
    "void": "void",
}
_QUALIFIERS = ("const", "volatile", "restrict", "__restrict", "__restrict__")
# The last parameter of a function that Cython offers: 0 calls it as it is.
SKIP_DISPATCH = "__pyx_skip_dispatch"


@dataclasses.dataclass(frozen=True)
class Type:
    """A number, or the address of numbers."""

    dtype: np.dtype[np.generic]
    is_pointer: bool = False
    is_const: bool = False

    def __str__(self) -> str:
        const = "const " if self.is_pointer and self.is_const else ""
        star = "*" if self.is_pointer else ""
        name = self.dtype.name
        return f"{const}{_C_NAMES.get(name, f'{name}_t')}{star}"

    def agrees(self, own: Type) -> bool:
        """Whether it may be declared for `own`; const does not count."""
        if own == ANY_POINTER:
            return self.is_pointer
        return (self.dtype, self.is_pointer) == (own.dtype, own.is_pointer)


# Only what a function says of itself may be this.
ANY_POINTER = Type(np.dtype(np.void), is_pointer=True)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter; its name is "" if the declaration has none."""

    type: Type
    name: str = ""

    def __str__(self) -> str:
        return f"{self.type} {self.name}".rstrip()


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a C function takes and returns, None for void.

    Attributes:
      returns: the type of what it returns.
      parameters: those that are known.
      is_open: whether nothing is known of the parameters.
    """

    returns: Type | None
    parameters: tuple[Parameter, ...]
    is_open: bool = False

    def __str__(self) -> str:
        parameters = ", ".join(map(str, self.parameters)) or "void"
        return f"{self.returns or 'void'}({'...' * self.is_open or parameters})"

    def agrees(self, own: Declaration) -> bool:
        """Whether it may be declared for a function that is `own`."""
        if self.returns is None or own.returns is None:
            if self.returns is not own.returns:
                return False
        elif not self.returns.agrees(own.returns):
            return False
        if own.is_open:
            return True
        given, wanted = self.parameters, own.parameters
        return len(given) == len(wanted) and all(
            a.type.agrees(b.type) for a, b in zip(given, wanted, strict=True)
        )


def parse(where: str, text: object) -> Declaration:
    """Reads a declaration, with or without names.

    Args:
      where: what the text is, for the error: "c_function: signature".
      text: such as "double(double)" or "void f(const float* x, float* y, int)".

    Raises:
      TypeError: it is not a string.
      ValueError: it declares no function that can be called; the text names
        what is not known.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"{where}: expected a C function's type, such as "
            f"'double(double, int)', got {text!r}"
        )
    return _Parser(where, text).declaration()


class _Parser:
    def __init__(self, where: str, text: str) -> None:
        self._where, self._text = where, text
        # One copied from a header ends with a semicolon.
        end = re.sub(r"[\s;]+$", "", text)
        self._tokens: list[str] = re.findall(r"\w+|\S", end)

    def _refuse(self, expected: str, got: str) -> NoReturn:
        raise ValueError(
            f"{self._where}: expected {expected}, got {got} in {self._text!r}"
        )

    def declaration(self) -> Declaration:
        tokens = self._tokens
        if "(" not in tokens:
            expected = "a C function's type, such as 'double(double, int)'"
            self._refuse(expected, "no (")
        at = tokens.index("(")
        returned = self._one(tokens[:at])
        if returned is not None and returned.type.is_pointer:
            self._refuse("a number or void before (", "a pointer")
        if tokens[-1] != ")":
            self._refuse(") at the end", repr(tokens[-1]))
        parameters = []
        for part in _split(tokens[at + 1 : -1]):
            found = self._one(part)
            if found is None:
                self._refuse("void alone in ( and )", "void as a parameter")
            parameters.append(found)
        own = returned.type if returned is not None else None
        return Declaration(own, tuple(parameters))

    def _one(self, tokens: Sequence[str]) -> Parameter | None:
        """A type and perhaps a name; None for void."""
        words = [t for t in tokens if t not in (*_QUALIFIERS, "*")]
        self._check_kind(tokens, words)
        stars = tokens.count("*")
        if stars > 1:
            self._refuse("pointers to numbers", "a pointer to pointers")
        if not stars and words[:1] == ["void"]:
            self._check_name(words[1:])
            return None
        for count in range(_MOST_WORDS, 0, -1):
            dtype = _TYPES.get(" ".join(words[:count]))
            if dtype is None or len(words) < count:
                continue
            rest = words[count:]
            if rest and rest[0] in _WORDS:
                break
            self._check_name(rest)
            # Behind the star, const is the pointer's own.
            pointee = tokens[: tokens.index("*")] if stars else tokens
            made = Type(np.dtype(dtype), bool(stars), "const" in pointee)
            return Parameter(made, "".join(rest))
        types = [word for word in words if word in _WORDS] or words[:1]
        got = repr(" ".join(types)) if types else "nothing"
        self._refuse(f"C's numbers ({_KNOWN})", got)

    def _check_kind(self, tokens: Sequence[str], words: Sequence[str]) -> None:
        """Refuses what C has beside numbers and pointers."""
        if not set(words).isdisjoint(_COMPLEX):
            expected = "real numbers, as complex ones are not supported"
            self._refuse(expected, repr(" ".join(words)))
        if "[" in tokens:
            before = list(tokens[: tokens.index("[")]) or ["double"]
            shown = " ".join(before)
            name = "" if before[-1] in _WORDS else before.pop()
            pointer = f"{' '.join(before)}* {name}".rstrip()
            self._refuse(f"a pointer for an array, {pointer}", f"{shown}[]")

    def _check_name(self, words: Sequence[str]) -> None:
        if words and (len(words) > 1 or not words[0].isidentifier()):
            wrong = next((w for w in words if not w.isidentifier()), words[-1])
            self._refuse("a type and at most one name", repr(wrong))


def _split(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """The parameters between the commas; none for () and (void)."""
    if list(tokens) in ([], ["void"]):
        return
    part: list[str] = []
    for token in tokens:
        if token == ",":
            yield part
            part = []
        else:
            part.append(token)
    yield part
