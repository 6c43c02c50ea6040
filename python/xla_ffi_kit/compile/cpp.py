"""Writes strings and checks names for generated C++."""

from __future__ import annotations

import re

from xla_ffi_kit.errors import BuildError

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
# Comments, and literals of strings and characters, but not the separator of
# 1'000.
_COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<!\w)'(?:\\.|[^'\\\n])*'",
    re.DOTALL,
)
_QUALIFIED = re.compile(r"(::)?\w+(::\w+)*")
_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch
    char char16_t char32_t class compl const const_cast constexpr continue
    decltype default delete do double dynamic_cast else enum explicit export
    extern false float for friend goto if inline int long mutable namespace new
    noexcept not not_eq nullptr operator or or_eq private protected public
    register reinterpret_cast return short signed sizeof static static_assert
    static_cast struct switch template this thread_local throw true try typedef
    typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq""".split()
)


def is_printable(text: str) -> bool:
    """Whether it stands between quotes as it is."""
    return text.isprintable() and not set(text) & set('"\\')


def literal(text: str) -> str:
    r"""Returns a string literal, with octal codes for unprintable bytes.

    Python's escapes are no alternative, because C++ has no surrogates and its
    `\x` has no end. Bytes of a file name that are not UTF-8 stay as they are.
    """
    parts = (
        c
        if is_printable(c)
        else "".join(f"\\{b:03o}" for b in c.encode(errors="surrogateescape"))
        for c in text
    )
    return f'"{"".join(parts)}"'


def encode(name: str, text: str) -> bytes:
    """The bytes of C++ code; BuildError for a surrogate, which has none."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError as error:
        raise BuildError(
            f"{name}: expected characters in the C++ code and its flags, got "
            f"the surrogate {text[error.start]!r}"
        ) from None


def without_comments(code: str) -> str:
    """The code with blanks in place of comments and literals.

    Every character stays at its place and in its line.
    """
    return _COMMENT_OR_LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code)


def check_code(where: str, code: str) -> None:
    """Refuses code that is blank but for comments."""
    if not _COMMENT.sub("", code).strip():
        raise BuildError(f"{where}: expected C++ code, got {code!r}")


def is_name(text: str) -> bool:
    """Whether a variable or function may be called so."""
    return text.isidentifier() and text not in _KEYWORDS


def is_function(text: str) -> bool:
    """Whether it is a function's name, with namespaces or without."""
    return bool(_QUALIFIED.fullmatch(text)) and all(
        is_name(part) for part in text.removeprefix("::").split("::")
    )


def is_symbol(text: str) -> bool:
    """Whether a linker knows it: a name that C has, too."""
    return text.isascii() and is_name(text)
