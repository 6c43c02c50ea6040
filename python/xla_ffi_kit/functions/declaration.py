"""Reads the declaration of a C function, "double(double x, int32_t n)".

What C does not say of a parameter stands beside it, as little as there is:

* a word before its type: `in`, `out`, `inout`, `scratch` or `status`;
* the axes of an array behind its name, `a[m][n]`, or `a(m, n)` if it is in
  Fortran's order in memory;
* a value that it always gets, `char* uplo = 'U'` or `int* lda = max(1, n)`.

A subroutine of Fortran is declared by Fortran's types, which are pointers of
C's: "subroutine dpotrf_(character uplo = 'U', integer n, ...)".
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NoReturn

import numpy as np

# C's names of numbers where `long` has 64 bits.
_TYPES = {
    "double": "float64",
    "float": "float32",
    "double _Complex": "complex128",
    "float _Complex": "complex64",
    "bool": "bool",
    "_Bool": "bool",
    "char": "S1",
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
CHAR = np.dtype("S1")
NUMBERS = frozenset(np.dtype(name).name for name in _TYPES.values())
_MOST_WORDS = 4
# What no parameter is called: "long double" is no long of that name.
_WORDS = {word for name in _TYPES for word in name.split()} | {"void"}
# Other names of C's complex numbers, and where C++ has the number's type.
_COMPLEX = re.compile(
    r"(?:std\s*::\s*)?complex\s*<\s*(float|double)\s*>"
    r"|\b(?:_Complex|complex)\s+(float|double)\b"
    r"|\b(float|double)\s+complex\b"
)
# Fortran's types, in the order in which they are looked for, and what they are.
_FORTRAN = (
    (r"\bintent\s*\(\s*in\s*\)", "const"),
    (r"\bintent\s*\(\s*(out|inout)\s*\)", r"\1"),
    (r"\b(double\s+complex|complex\s*\*\s*16)\b", "double _Complex*"),
    (r"\bcomplex\b(\s*\*\s*8\b)?", "float _Complex*"),
    (r"\b(double\s+precision|real\s*\*\s*8)\b", "double*"),
    (r"\breal\b(\s*\*\s*4\b)?", "float*"),
    (r"\binteger\s*\*\s*8\b", "int64_t*"),
    (r"\b(integer|logical)\b(\s*\*\s*4\b)?", "int*"),
    (r"\bcharacter\b", "char*"),
)
_SUBROUTINE = re.compile(r"\s*subroutine\b", re.IGNORECASE)
_KNOWN = "double, float, bool, int, long, size_t, int32_t and the like"
# Those of messages; of other dtypes, NumPy's with _t.
_C_NAMES = {
    "float64": "double",
    "float32": "float",
    "complex128": "double _Complex",
    "complex64": "float _Complex",
    "bool": "bool",
    "int32": "int",
    "void": "void",
    CHAR.name: "char",
}
_QUALIFIERS = ("const", "volatile", "restrict", "__restrict", "__restrict__")
# The last parameter of a function that Cython offers: 0 calls it as it is.
SKIP_DISPATCH = "__pyx_skip_dispatch"
ROLES = ("in", "out", "inout", "scratch", "status")
_TOKENS = re.compile(r"'(?:\\.|[^'\\])'|\"(?:\\.|[^\"\\])*\"|\w+|\S")
# A character, or a text, of C.
_TEXT = re.compile(
    r"'(\\([0-7]{1,3}|x[0-9a-fA-F]+|.)|[^\\'])'" r'|"(\\.|[^\\"])*"'
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_OPEN, _CLOSE = "([{", ")]}"


@dataclasses.dataclass(frozen=True)
class Type:
    """A number, or the address of numbers."""

    dtype: np.dtype[np.generic]
    is_pointer: bool = False
    is_const: bool = False

    @property
    def element(self) -> str:
        """The number in C, const if it is behind a pointer that says so."""
        const = "const " if self.is_pointer and self.is_const else ""
        name = self.dtype.name
        return f"{const}{_C_NAMES.get(name, f'{name}_t')}"

    def __str__(self) -> str:
        return f"{self.element}{'*' * self.is_pointer}"

    def agrees(self, own: Type) -> bool:
        """Whether it may be declared for `own`; const does not count."""
        if own == ANY_POINTER:
            return self.is_pointer
        return (self.dtype, self.is_pointer) == (own.dtype, own.is_pointer)


# Only what a function says of itself may be this.
ANY_POINTER = Type(np.dtype(np.void), is_pointer=True)


@dataclasses.dataclass(frozen=True)
class Parameter:
    """A parameter.

    Attributes:
      type: the number, or the address of numbers.
      name: "" if the declaration has none.
      role: one of ROLES, "" for none.
      sizes: of the axes of an array, None if it is not written as one.
      is_fortran: whether the first axis is the fastest in memory.
      value: what the function always gets, "" for none.
    """

    type: Type
    name: str = ""
    role: str = ""
    sizes: tuple[str, ...] | None = None
    is_fortran: bool = False
    value: str = ""

    def __str__(self) -> str:
        words = [self.role, str(self.type), self.name]
        sizes = ""
        if self.sizes is not None:
            words[1] = self.type.element
            sizes = "".join(f"[{size}]" for size in self.sizes)
            if self.is_fortran:
                sizes = f"({', '.join(self.sizes)})"
        value = f" = {self.value}" if self.value else ""
        return f"{' '.join(filter(None, words))}{sizes}{value}"


@dataclasses.dataclass(frozen=True)
class Declaration:
    """What a C function takes and returns.

    Attributes:
      returns: the type of what it returns, None for void.
      parameters: those that are known.
      role: what is said of the number that it returns: out, status or "".
      is_open: whether nothing is known of the parameters.
    """

    returns: Type | None
    parameters: tuple[Parameter, ...]
    role: str = ""
    is_open: bool = False

    def __str__(self) -> str:
        parameters = ", ".join(map(str, self.parameters)) or "void"
        returns = f"{self.role} {self.returns or 'void'}".lstrip()
        return f"{returns}({'...' * self.is_open or parameters})"

    @property
    def types(self) -> Declaration:
        """The same as C has it: without roles, arrays and values."""
        parameters = (Parameter(p.type, p.name) for p in self.parameters)
        return Declaration(
            self.returns,
            tuple(p for p in parameters if p.name != SKIP_DISPATCH),
            is_open=self.is_open,
        )

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
      text: such as "double(double)" or "void f(const float* x, out float* y,
        int n)".

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


# --- Sizes --------------------------------------------------------------------


def names_of(size: str) -> list[str]:
    """The axes that a size is computed from."""
    names = re.findall(r"[^\W\d]\w*", size)
    return [name for name in names if name not in ("max", "min")]


def evaluate(size: str, known: Mapping[str, int]) -> int:
    """The size, given those of the axes that it names."""
    code = size.replace("/", "//")
    found: int = eval(code, {"__builtins__": {}, "max": max, "min": min}, known)
    return found


def is_size(text: str) -> bool:
    """Whether it is a sum, product or maximum of integers and axes."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    allowed = (
        *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.USub, ast.Load),
        *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Name, ast.Constant),
        ast.Call,
    )
    return all(
        isinstance(node, allowed)
        and (not isinstance(node, ast.Constant) or type(node.value) is int)
        and (
            not isinstance(node, ast.Call)
            or (
                isinstance(node.func, ast.Name)
                and not node.keywords
                and len(node.args) == 2
            )
        )
        for node in ast.walk(tree)
    ) and not re.search(r"\b(?!max\b|min\b)\w+\s*\(", text)


# --- The parser ---------------------------------------------------------------


class _Parser:
    def __init__(self, where: str, text: str) -> None:
        self._where, self._text = where, text
        # One copied from a header ends with a semicolon.
        end = re.sub(r"[\s;]+$", "", text)
        if _SUBROUTINE.match(end):
            end = _SUBROUTINE.sub("void", end)
            for theirs, ours in _FORTRAN:
                end = re.sub(theirs, ours, end, flags=re.IGNORECASE)
        end = _COMPLEX.sub(
            lambda m: f"{next(filter(None, m.groups()))} _Complex", end
        )
        self._tokens: list[str] = _TOKENS.findall(end)

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
        if returned is not None and returned.type.dtype == CHAR:
            self._refuse("a number or void before (", "a char")
        if returned is not None and returned.role not in ("", "out", "status"):
            self._refuse("out, status or no word before (", returned.role)
        if tokens[-1] != ")":
            self._refuse(") at the end", repr(tokens[-1]))
        parameters: list[Parameter] = []
        for part in _split(tokens[at + 1 : -1]):
            found = self._one(part)
            if found is None:
                self._refuse("void alone in ( and )", "void as a parameter")
            if found.name and found.name in (p.name for p in parameters):
                self._refuse("a name for each parameter", f"two {found.name}")
            parameters.append(found)
        own = returned.type if returned is not None else None
        role = returned.role if returned is not None else ""
        return Declaration(own, tuple(parameters), role)

    def _one(self, tokens: Sequence[str]) -> Parameter | None:
        """A parameter, or what is returned; None for void."""
        role = value = ""
        if len(tokens) > 1 and tokens[0] in ROLES:
            role, *tokens = tokens
        if "=" in tokens:
            at = tokens.index("=")
            tokens, value = tokens[:at], "".join(tokens[at + 1 :])
        tokens, sizes, is_fortran = self._array(tokens)
        found = self._number(tokens)
        if found is None:
            return None
        type_, name = found
        if sizes is not None:
            type_ = dataclasses.replace(
                type_, is_pointer=True, is_const="const" in tokens
            )
        made = Parameter(type_, name, role, sizes or None, is_fortran, value)
        self._check(made)
        return made

    def _array(
        self, tokens: Sequence[str]
    ) -> tuple[Sequence[str], tuple[str, ...] | None, bool]:
        """What stands before the axes of an array, and the axes.

        None for no array, and no axes for one of unknown size, `x[]`.
        """
        opens = [i for i, token in enumerate(tokens) if token in "[("]
        if not opens:
            return tokens, None, False
        at = opens[0]
        rest = "".join(tokens[at:])
        is_fortran = tokens[at] == "("
        if is_fortran:
            parts = _split(tokens[at + 1 : -1])
            sizes = tuple("".join(part) for part in parts)
            is_whole = rest.endswith(")")
        else:
            sizes = tuple(re.findall(r"\[([^\[\]]*)\]", rest))
            is_whole = "".join(f"[{size}]" for size in sizes) == rest
        if is_whole and sizes == ("",):
            return tokens[:at], (), False
        if not is_whole or not sizes or not all(map(is_size, sizes)):
            expected = (
                "the axes of an array, such as a[m][n], or a(m,n) in Fortran's "
                "order"
            )
            self._refuse(expected, rest)
        return tokens[:at], sizes, is_fortran

    def _number(self, tokens: Sequence[str]) -> tuple[Type, str] | None:
        """A type and perhaps a name; None for void."""
        words = [t for t in tokens if t not in (*_QUALIFIERS, "*")]
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
            return made, "".join(rest)
        if words and words[0] in ROLES:
            expected = f"one of {', '.join(ROLES)}, before const and the type"
            self._refuse(expected, repr(" ".join(tokens)))
        types = [word for word in words if word in _WORDS] or words[:1]
        got = repr(" ".join(types)) if types else "nothing"
        self._refuse(f"C's numbers ({_KNOWN})", got)

    def _check_name(self, words: Sequence[str]) -> None:
        if words and (len(words) > 1 or not words[0].isidentifier()):
            wrong = next((w for w in words if not w.isidentifier()), words[-1])
            self._refuse("a type and at most one name", repr(wrong))

    def _check(self, parameter: Parameter) -> None:
        """Refuses values of another type, and roles without a pointer."""
        type_, value = parameter.type, parameter.value
        if value and (parameter.role or parameter.sizes):
            self._refuse("a value of a number alone", str(parameter))
        if value and type_.dtype == CHAR:
            quotes = "'\"" if type_.is_pointer else "'"
            if value[0] not in quotes or not _TEXT.fullmatch(value):
                self._refuse("a character, 'U'", value)
        elif value and not (is_size(value) or _NUMBER.fullmatch(value)):
            self._refuse("a number, or one of sizes of axes, 2*n", value)
        elif value and type_.dtype.kind in "iu" and not is_size(value):
            self._refuse("an integer", value)


def _split(tokens: Sequence[str]) -> Iterator[Sequence[str]]:
    """The parameters between the commas; none for () and (void)."""
    if list(tokens) in ([], ["void"]):
        return
    part: list[str] = []
    depth = 0
    for token in tokens:
        depth += (token in _OPEN) - (token in _CLOSE)
        if token == "," and not depth:
            yield part
            part = []
        else:
            part.append(token)
    yield part
