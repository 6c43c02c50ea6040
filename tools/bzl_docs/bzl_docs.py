"""Writes docs/defs.md from the docstrings of the public Starlark files.

    python3 tools/bzl_docs/bzl_docs.py          writes it
    python3 tools/bzl_docs/bzl_docs.py --check  fails if it is not current

Starlark's syntax is Python's, so Python reads it. What is public and has no
docstring, or an argument that it does not explain, is an error.
"""

import argparse
import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).absolute().parents[2]
PAGE = "docs/defs.md"

# File to load from, and what of it is public.
PUBLIC = {
    "xla_ffi/defs.bzl": ["xla_ffi_op", "xla_ffi_library"],
    "xla_ffi/py_defs.bzl": ["xla_ffi_py_library"],
    "python/wheel.bzl": ["python_wheel", "stripped_library"],
    "xla_ffi/testing/fuzz/defs.bzl": ["xla_ffi_fuzz_test"],
    "xla_ffi/testing/handlers/defs.bzl": ["xla_ffi_handler_tests"],
    "tools/pytest_test/defs.bzl": ["pytest_test"],
    "third_party/cuda/defs.bzl": ["cuda_library", "CUDA_ONLY"],
    "third_party/workspace.bzl": [
        "xla_ffi_kit_repositories",
        "xla_ffi_kit_python_repositories",
    ],
    "third_party/extensions.bzl": ["xla_ffi_kit"],
}
FLAGS = ["third_party/xla/BUILD", "third_party/cuda/BUILD"]
FLAG_RULES = ("bool_flag", "label_flag", "string_flag", "string_list_flag")

HEADER = """\
# Rules, macros and flags

This page documents the public rules, macros and flags of the build.
(`tools/bzl_docs/bzl_docs.py` writes it from the docstrings of the files.)
"""


class Undocumented(Exception):
    """Something public is not explained; says what, and where."""


def paragraphs(text: str) -> str:
    """A docstring's text without the indentation of its first line's block."""
    lines = text.strip().splitlines()
    rest = [line for line in lines[1:] if line.strip()]
    margin = min((len(x) - len(x.lstrip()) for x in rest), default=0)
    return "\n".join([lines[0], *(x[margin:].rstrip() for x in lines[1:])])


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """What stands before `Args:`, and each argument's text."""
    before, _, after = paragraphs(text).partition("\nArgs:\n")
    after = re.split(r"\n\n?(?:Returns|Raises):\n", after)[0]
    arguments: dict[str, str] = {}
    name = ""
    for line in after.splitlines():
        match = re.match(r"  (\**\w+): (.*)", line)
        if match:
            name = match[1]
            arguments[name] = match[2]
        elif line.strip():
            arguments[name] += " " + line.strip()
    before = re.split(r"\nReturns:\n", before)[0]
    return before.strip(), arguments


def table(rows: list[tuple[str, str, str]], columns: str) -> str:
    """A Markdown table; `columns` is its first line."""
    lines = [columns, "|---" * (columns.count("|") - 1) + "|"]
    for row in rows:
        # A line break would end the row.
        words = (" ".join(cell.split()) for cell in row)
        cells = " | ".join(cell.replace("|", "\\|") for cell in words)
        lines.append(f"| {cells} |")
    return "\n".join(lines)


def starlark(node: ast.expr) -> str:
    return ast.unparse(node).replace("'", '"')


def function(where: str, node: ast.FunctionDef) -> str:
    text = ast.get_docstring(node, clean=False)
    if not text:
        raise Undocumented(f"{where}: {node.name} has no docstring")
    summary, explained = split_docstring(text)
    spec = node.args
    defaults: list[ast.expr | None] = [None] * (
        len(spec.args) - len(spec.defaults)
    )
    rows = []
    for arg, default in zip(
        spec.args, [*defaults, *spec.defaults], strict=True
    ):
        shown = f"`{starlark(default)}`" if default else "required"
        rows.append((arg.arg, shown))
    if spec.kwarg:
        rows.append((f"**{spec.kwarg.arg}", ""))
    missing = {name for name, _ in rows} ^ explained.keys()
    if missing:
        raise Undocumented(
            f"{where}: {node.name}: the arguments and those under `Args:` "
            f"differ in {', '.join(sorted(missing))}"
        )
    parts = [summary]
    if rows:
        full = [(f"`{name}`", shown, explained[name]) for name, shown in rows]
        parts.append(table(full, "| argument | default | meaning |"))
    return "\n\n".join(parts)


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {k.arg: k.value for k in call.keywords if k.arg}


def constant(where: str, node: ast.expr | None) -> str:
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        raise Undocumented(f"{where} has no `doc`")
    return node.value


def rule(where: str, name: str, call: ast.Call) -> str:
    """A rule, repository rule or module extension."""
    given = keywords(call)
    parts = [paragraphs(constant(f"{where}: {name}", given.get("doc")))]
    attributes = given.get("attrs")
    if isinstance(attributes, ast.Dict):
        rows = []
        for key, value in zip(attributes.keys, attributes.values, strict=True):
            assert isinstance(key, ast.Constant) and isinstance(value, ast.Call)
            if str(key.value).startswith("_"):
                continue
            attribute = keywords(value)
            place = f"{where}: {name}: {key.value}"
            text = constant(place, attribute.get("doc"))
            mandatory = "mandatory" in attribute
            default = attribute.get("default")
            shown = f"`{starlark(default)}`" if default else "empty"
            rows.append(
                (f"`{key.value}`", "required" if mandatory else shown, text)
            )
        parts.append(table(rows, "| argument | default | meaning |"))
    return "\n\n".join(parts)


def comment_above(lines: list[str], number: int) -> str:
    """The comment that ends right above line `number`, counted from one."""
    comment: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.startswith("#"):
            break
        comment.insert(0, line.lstrip("# "))
    return " ".join(comment)


def symbol(root: pathlib.Path, file: str, name: str) -> str:
    text = (root / file).read_text()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return function(file, node)
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == name
        ):
            called = (
                node.value.func if isinstance(node.value, ast.Call) else None
            )
            if called is not None and ast.unparse(called) != "select":
                return rule(file, name, node.value)
            comment = comment_above(text.splitlines(), node.lineno)
            if not comment:
                raise Undocumented(f"{file}: {name} has no comment above it")
            return comment
    raise Undocumented(f"{file} does not define {name}")


def flags(root: pathlib.Path) -> str:
    rows = []
    for file in FLAGS:
        text = (root / file).read_text()
        for node in ast.parse(text).body:
            call = node.value if isinstance(node, ast.Expr) else None
            if not isinstance(call, ast.Call):
                continue
            if ast.unparse(call.func) not in FLAG_RULES:
                continue
            given = keywords(call)
            label = f"//{pathlib.Path(file).parent}:{given['name'].value}"
            comment = comment_above(text.splitlines(), node.lineno)
            if not comment:
                raise Undocumented(f"{file}: {label} has no comment above it")
            default = starlark(given["build_setting_default"])
            rows.append((f"`--{label}`", f"`{default}`", comment))
    return table(rows, "| flag | default | meaning |")


def page(root: pathlib.Path = ROOT) -> str:
    """The whole page."""
    parts = [HEADER]
    for file, names in PUBLIC.items():
        package, _, base = file.rpartition("/")
        label = f"@xla_ffi_kit//{package}:{base}"
        parts.append(f"## [`{label}`](../{file})\n")
        for name in names:
            parts.append(f"### `{name}`\n\n{symbol(root, file, name)}\n")
    parts.append(
        "## Flags\n\nIn another workspace they begin with `@xla_ffi_kit`.\n\n"
        f"{flags(root)}\n"
    )
    return "\n".join(parts)


def main() -> int:
    """Writes the page, or compares it with what it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    path = ROOT / PAGE
    text = page()
    if not check:
        path.write_text(text)
    elif not path.exists() or path.read_text() != text:
        print(f"{PAGE} is not current: run python3 tools/bzl_docs/bzl_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
