"""The pages of the site that are made of code: Python and commands.

autodoc reads the page of Python. docs/handlers.md is that of handlers.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

# The modules, and their operations, which autodoc takes for data.
_MODULES: dict[str, tuple[str, ...]] = {
    "xla_ffi_kit": ("modular_add", "relu"),
    "xla_ffi_kit.testing": (),
    "xla_ffi_kit.errors": (),
    "xla_ffi_kit.extend": (),
    "xla_ffi_accelerate": (),
}
_COMMANDS = {
    "xla_ffi_kit": ("doctor", "describe", "build", "cache", "include"),
    "xla_ffi_accelerate": ("explain",),
}


def python() -> str:
    """The page on Python, which autodoc fills."""
    parts = ["# Python"]
    for module, more in _MODULES.items():
        functions = [f".. autofunction:: {module}.{name}\n" for name in more]
        directives = [f".. automodule:: {module}\n   :members:\n", *functions]
        read = "\n".join(directives)
        parts.append(f"## `{module}`\n\n```{{eval-rst}}\n{read}```")
    return "\n\n".join(parts) + "\n"


def _help(module: str, *arguments: str) -> str:
    return subprocess.check_output(
        [sys.executable, "-m", module, *arguments, "--help"],
        env=os.environ | {"COLUMNS": "88"},
        text=True,
    ).strip()


def commands() -> str:
    """The page on the commands of both packages."""
    parts = [
        "# Commands\n\n`xla-ffi-kit` is the same as `python -m xla_ffi_kit`."
    ]
    for module, names in _COMMANDS.items():
        for name in ("", *names):
            heading = f"python -m {module} {name}".strip()
            said = _help(module, *name.split())
            level = "###" if name else "##"
            parts.append(f"{level} `{heading}`\n\n```text\n{said}\n```")
    return "\n\n".join(parts) + "\n"


def write(sources: pathlib.Path) -> None:
    """Writes the pages."""
    (sources / "python.md").write_text(python())
    (sources / "commands.md").write_text(commands())
