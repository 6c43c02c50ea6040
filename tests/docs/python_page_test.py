"""docs/python.md is what the packages' docstrings say.

python tests/docs/python_page_test.py          writes it
"""

import importlib
import inspect
import pathlib

from pages import ROOT

PAGE = ROOT / "docs/python.md"
MODULES = {
    "xla_ffi_kit": "python",
    "xla_ffi_kit.testing": "python",
    "xla_ffi_kit.errors": "python",
    "xla_ffi_kit.extend": "python",
    "xla_ffi_accelerate": "accelerate/python",
}
_ABOUT = """\
# Names of Python

Every public name, the first line of what its docstring says, and the file that
has the rest; `help(NAME)` and the site (`tools/bazel run //docs:serve`) show it
whole.
"""


def _public(module):
    """The names of a module that are its own, with what they are."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__ == module.__name__
    ]
    return {name: getattr(module, name) for name in sorted(names)}


def _source(value, folder):
    """The file that defines it, from docs/, without the machine's folders."""
    inner = (
        value if inspect.isclass(value) else getattr(value, "reference", value)
    )
    name = inspect.unwrap(inner).__module__
    is_package = hasattr(importlib.import_module(name), "__path__")
    path = f"../{folder}/{name.replace('.', '/')}"
    return f"{path}/__init__.py" if is_package else f"{path}.py"


def _row(name, value, folder):
    first = (inspect.getdoc(value) or "").split("\n\n")[0]
    says = first.replace("\n", " ").replace("|", "\\|")
    return f"| [`{name}`]({_source(value, folder)}) | {says} |"


def written():
    parts = [_ABOUT]
    for name, folder in MODULES.items():
        module = importlib.import_module(name)
        rows = [
            _row(key, value, folder)
            for key, value in _public(module).items()
            if callable(value)
        ]
        parts.append(
            "\n".join([f"## `{name}`\n", "| | |\n|---|---|", *rows, ""])
        )
    return "\n".join(parts)


def test_the_page_is_current():
    assert PAGE.read_text() == written(), (
        "run python tests/docs/python_page_test.py"
    )


if __name__ == "__main__":
    pathlib.Path(PAGE).write_text(written())
