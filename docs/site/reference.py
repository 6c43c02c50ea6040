"""The pages of the site that are made of code: Python, headers and commands.

autodoc reads what the page of Python names. docs/defs.md is the reference of
Starlark, and docs/handlers.md that of handlers.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import xla_ffi_kit

# The modules, and their operations, which autodoc takes for data.
_MODULES: dict[str, tuple[str, ...]] = {
    "xla_ffi_kit": ("modular_add", "relu"),
    "xla_ffi_kit.testing": (),
    "xla_ffi_kit.errors": (),
    "xla_ffi_kit.extend": (),
    "xla_ffi_accelerate": (),
}
# What authors of handlers include, and what that includes of the kit.
HEADERS = (
    "xla_ffi/core/signature.h",
    "xla_ffi/core/call.h",
    "xla_ffi/core/handler.h",
    "xla_ffi/core/checks.h",
    "xla_ffi/core/attributes.h",
    "xla_ffi/core/batch_shape.h",
    "xla_ffi/core/dtypes.h",
    "xla_ffi/core/half.h",
    "xla_ffi/core/parallel_for.h",
    "xla_ffi/core/executor.h",
    "xla_ffi/core/host_scratch.h",
    "xla_ffi/core/output_pages.h",
    "xla_ffi/core/status_macros.h",
    "xla_ffi/core/define_table.h",
    "xla_ffi/core/define_type.h",
    "xla_ffi/core/handler_table.h",
    "xla_ffi/core/handler_signature.h",
    "xla_ffi/inline/kit.h",
    "xla_ffi/inline/types.h",
    "xla_ffi/inline/threads.h",
)
_DECLARATION = re.compile(
    r"^((?://.*\n)*)"  # a comment
    # A macro's first line, or a declaration until its body or its end.
    r"(#define \w+(?:\([^)\n]*\))?|(?:template|inline|struct|class|using|enum)"
    r"\b[^{;]+(?=[{;]))",
    re.M,
)
_INTERNAL = re.compile(
    r"^namespace (\w*internal\w*|) ?\{.*?^\}  // namespace", re.M | re.S
)
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


def _prose(comment: str) -> str:
    """A comment as Markdown: what it indents is code."""
    lines = (line.removeprefix("//") for line in comment.splitlines())
    text = "\n".join(line.removeprefix(" ").rstrip() for line in lines)
    blocks = []
    for block in text.split("\n\n"):
        is_code = all(line.startswith("  ") for line in block.splitlines())
        if is_code and block.strip():
            code = textwrap.dedent(block)
            blocks.append(f"```c++\n{code}\n```")
        else:
            # Outside of code spans, C++ is not to be taken for Markdown.
            spans = block.split("`")
            spans[::2] = [re.sub(r"([<*|])", r"\\\1", t) for t in spans[::2]]
            blocks.append("`".join(spans))
    return "\n\n".join(blocks).strip()


def declarations(text: str) -> Iterator[tuple[str, str]]:
    """The public declarations of a header: each, and its comment."""
    code = text.partition("#define ")[2].partition("\n")[2]  # below the guard
    for found in _DECLARATION.finditer(_INTERNAL.sub("", code)):
        declaration = textwrap.dedent(found[2]).strip()
        is_internal = re.match(r"template <>|#define \w+_\(", declaration)
        if not is_internal:
            yield declaration, _prose(found[1])


def headers(folder: pathlib.Path) -> str:
    """The page on C++ headers below a folder."""
    parts = [
        "# C++ headers\n\nThese headers are in the wheel (`python -m "
        "xla_ffi_kit include`), and in Bazel's `//xla_ffi/core:handler` and "
        "`:signature`. Handlers include `xla_ffi/core/call.h` and "
        "`xla_ffi/core/handler.h`; the code of kernels in "
        "strings includes `xla_ffi/inline/kit.h` by itself."
    ]
    for path in HEADERS:
        text = (folder / path).read_text()
        about = re.match(r"((?://.*\n)+)", text)
        parts += [f"## `{path}`", _prose(about[1]) if about else ""]
        for declaration, meaning in declarations(text):
            parts.append(f"```c++\n{declaration}\n```\n\n{meaning}".strip())
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
    include = pathlib.Path(xla_ffi_kit.include_dir())
    (sources / "headers.md").write_text(headers(include))
    (sources / "commands.md").write_text(commands())
