"""Which names an operation may have."""

import ast
import keyword
import pathlib
import re
import sys

# What C++20 reserves beyond Python's keywords, as far as it is snake_case.
_CPP = frozenset(
    """alignas alignof and_eq asm auto bitand bitor bool case catch char char8_t
    char16_t char32_t co_await co_return co_yield compl concept const const_cast
    consteval constexpr constinit decltype default delete do double dynamic_cast
    enum explicit export extern float friend goto inline int long mutable
    namespace new noexcept not_eq nullptr operator or_eq private protected
    public register reinterpret_cast requires short signed sizeof static
    static_assert static_cast struct switch template this thread_local throw
    typedef typeid typename union unsigned using virtual void volatile wchar_t
    xor xor_eq linux unix""".split()
)
# Modules that the operation's own would hide from its test.
_MODULES = frozenset({"jax", "jaxlib", "numpy", "xla_ffi_kit"})
_MAX = 40
_SNAKE_CASE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

_PACKAGE = pathlib.Path(__file__).parents[2] / "python" / "xla_ffi_kit"


class Refusal(Exception):
    """The operation is not written; the text is one sentence."""


def taken_by_kit() -> set[str]:
    """The kit's public names, and its modules of operations."""
    tree = ast.parse((_PACKAGE / "__init__.py").read_text())
    public = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return public | {file.stem for file in (_PACKAGE / "ops").glob("*.py")}


def check(name: str) -> None:
    """Raises Refusal unless an operation may have this name."""
    if not _SNAKE_CASE.fullmatch(name):
        raise Refusal(
            f"{name!r} is not a name in snake_case: write lower-case letters, "
            "digits and single underscores, a letter first"
        )
    if len(name) > _MAX:
        raise Refusal(
            f"{name} has {len(name)} characters: write at most {_MAX}"
        )
    if name in _CPP:
        raise Refusal(f"{name} is a reserved word of C++: choose another name")
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise Refusal(
            f"{name} is a reserved word of Python: choose another name"
        )
    if name in sys.stdlib_module_names or name in _MODULES:
        raise Refusal(
            f"{name} is a module that Python needs: choose another name"
        )
    if name in taken_by_kit():
        raise Refusal(
            f"{name} is a name of xla_ffi_kit already: choose another name"
        )
