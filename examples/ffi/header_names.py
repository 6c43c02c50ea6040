"""The public names of XLA's FFI headers, read out of their text.

Not a C++ parser: enough of one for headers in Google style. Namespaces called
`internal`, and what is private or protected, are no public names.
"""

from __future__ import annotations

import re

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M | re.S)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.M)
_UNDEF = re.compile(r"^[ \t]*#[ \t]*undef[ \t]+(\w+)", re.M)

_CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?([A-Za-z]\w*)\s*")
_ENUM = re.compile(r"\benum\b\s*(?:class\s+)?(\w*)")
_FUNCTION = re.compile(r"([A-Za-z_]\w*|operator\S+?)\s*(?:<[^()]*>)?\s*\(")
_NOT_FUNCTIONS = {
    "alignof", "assert", "decltype", "defined", "explicit", "if", "noexcept",
    "operator", "return", "sizeof", "static_assert", "switch",
    "XLA_FFI_DEFINE_STRUCT_TRAITS", "__attribute__",
}  # fmt: skip


def without_comments(text: str) -> str:
    """C++ without comments and without what strings say."""
    return _STRING.sub('""', _COMMENT.sub(" ", text))


def macros(text: str) -> set[str]:
    """Macros that a header defines for others."""
    text = _COMMENT.sub(" ", text)
    names = set(_MACRO.findall(text)) - set(_UNDEF.findall(text))
    return {
        name
        for name in names
        # Include guards, and steps of other macros.
        if not name.endswith("_") and not name.startswith("_")
    }


def declarations(text: str) -> set[str]:
    """Classes, functions, members, enums, aliases and constants."""
    text = _DIRECTIVE.sub("", without_comments(text))
    text = re.sub(r'extern\s+""\s*\{', "", text)
    names: set[str] = set()
    scopes: list[_Scope] = []
    statement = ""
    for token in re.split(r"([{};]|(?<!:):(?!:))", text):
        if token == "{":
            scopes.append(_Scope(statement, scopes, names))
            statement = ""
        elif token == "}":
            if scopes:
                scopes.pop().close(statement, names)
            statement = ""
        elif token == ";":
            _declare(statement, scopes, names)
            statement = ""
        elif token == ":":
            access = statement.split()[-1:]
            if access and access[0] in ("public", "private", "protected"):
                scopes[-1].is_public = access[0] == "public"
                statement = ""
            else:
                statement += token
        else:
            statement += token
    return names


class _Scope:
    """What a pair of braces holds."""

    def __init__(
        self, statement: str, scopes: list[_Scope], names: set[str]
    ) -> None:
        self.kind, self.name, self.is_public = "body", "", True
        self.is_scoped = False
        head = re.sub(r"^(template ?<[^(]*?> )+", "", _one_line(statement))
        space = re.search(r"\bnamespace\s+([\w:]*)\s*$", statement)
        is_visible = _is_visible(scopes)
        if space:
            self.kind, self.name = "namespace", space[1]
            self.is_public = space[1] not in ("internal", "")
        elif "enum" in head.split() and (found := _ENUM.search(head)):
            self.kind, self.name = "enum", found[1]
            self.is_public = is_visible
            # C's: their enumerators have the prefix themselves.
            self.is_scoped = "class" in head.split()
            if is_visible and found[1]:
                names.add(_qualified(found[1], scopes))
        elif "(" not in head and (found := _CLASS.search(head)):
            self.kind, self.name = "class", found[1]
            self.is_public = "class" not in head.split()
            # `struct internal::Decode<...>` is no name of its own.
            self.is_public = self.is_public and "internal::" not in head
            if is_visible and "internal::" not in head:
                names.add(_qualified(self.name, scopes))
        else:
            _declare(statement, scopes, names)
            self.is_public = False

    def close(self, statement: str, names: set[str]) -> None:
        """The closing brace: enumerators are what comes before it."""
        if self.kind != "enum" or not self.is_public:
            return
        for part in statement.split(","):
            if found := re.match(r"\s*(\w+)", part):
                prefix = f"{self.name}::" if self.is_scoped else ""
                names.add(prefix + found[1])


def _one_line(statement: str) -> str:
    return " ".join(statement.split())


def _is_visible(scopes: list[_Scope]) -> bool:
    return all(scope.is_public for scope in scopes)


def _qualified(name: str, scopes: list[_Scope]) -> str:
    return "::".join([s.name for s in scopes if s.kind == "class"] + [name])


def _declare(statement: str, scopes: list[_Scope], names: set[str]) -> None:
    """Adds what one statement declares."""
    statement = re.sub(r"^(template ?<[^(]*?> )+", "", _one_line(statement))
    if not _is_visible(scopes) or statement.startswith("friend"):
        return
    if found := re.search(r"\busing (\w+) =", statement):
        names.add(_qualified(found[1], scopes))
    elif found := re.match(r"inline constexpr \w+ (\w+) =", statement):
        names.add(_qualified(found[1], scopes))
    elif found := re.match(r"(?:typedef .*?|\s*)\b(XLA_FFI_\w+)$", statement):
        names.add(found[1])  # the end of a typedef of braces
    elif found := re.match(r"typedef [^(]*?(\w+)( ?\(.*\))?$", statement):
        names.add(found[1])
    elif found := _FUNCTION.search(statement):
        inside = scopes[-1].name if scopes else ""
        name = found[1]
        before = statement[: found.start(1)]
        if (
            name not in _NOT_FUNCTIONS
            and "operator" not in before.split()
            and not name.startswith(("operator", "_"))
            and name != inside
            and before.strip()  # else a use of a macro
            and not before.endswith(("~", "::", "(*"))
        ):
            names.add(_qualified(name, scopes))
