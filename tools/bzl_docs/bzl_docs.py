"""Writes docs/defs.md from the docstrings of the public Starlark files.

    python3 tools/bzl_docs/bzl_docs.py

Starlark's syntax is Python's, so Python reads it. That a docstring explains
each argument, buildifier checks.
"""

import ast
import pathlib
import re

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

ARGUMENTS = "| argument | default | meaning |"

HEADER = """\
# Rules, macros and flags

This page documents the public rules, macros and flags of the build.
(`tools/bzl_docs/bzl_docs.py` writes it from the docstrings of the files.)
"""


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


def function(node: ast.FunctionDef) -> str:
    """A macro."""
    summary, explained = split_docstring(
        ast.get_docstring(node, clean=False) or ""
    )
    spec = node.args
    with_default = spec.args[len(spec.args) - len(spec.defaults) :]
    shown = {arg.arg: "required" for arg in spec.args}
    for arg, default in zip(with_default, spec.defaults, strict=True):
        shown[arg.arg] = f"`{starlark(default)}`"
    rows = [(f"`{a}`", shown.get(a, ""), text) for a, text in explained.items()]
    return f"{summary}\n\n{table(rows, ARGUMENTS)}" if rows else summary


def keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {k.arg: k.value for k in call.keywords if k.arg}


def rule(call: ast.Call) -> str:
    """A rule, repository rule or module extension."""
    given = keywords(call)
    summary = paragraphs(ast.literal_eval(given["doc"]))
    attributes = given.get("attrs")
    if not isinstance(attributes, ast.Dict):
        return summary
    rows = []
    for key, value in zip(attributes.keys, attributes.values, strict=True):
        assert isinstance(key, ast.Constant) and isinstance(value, ast.Call)
        if str(key.value).startswith("_"):
            continue
        attribute = keywords(value)
        default = attribute.get("default")
        shown = f"`{starlark(default)}`" if default else "empty"
        if "mandatory" in attribute:
            shown = "required"
        text = ast.literal_eval(attribute["doc"])
        rows.append((f"`{key.value}`", shown, text))
    return f"{summary}\n\n{table(rows, ARGUMENTS)}"


def comment_above(lines: list[str], number: int) -> str:
    """The comment that ends right above line `number`, counted from one."""
    comment: list[str] = []
    for line in reversed(lines[: number - 1]):
        if not line.startswith("#"):
            break
        comment.insert(0, line.lstrip("# "))
    return " ".join(comment)


def symbol(text: str, name: str) -> str:
    """What a file says of something public in it."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return function(node)
        if not isinstance(node, ast.Assign):
            continue
        if ast.unparse(node.targets[0]) != name:
            continue
        value = node.value
        if isinstance(value, ast.Call) and ast.unparse(value.func) != "select":
            return rule(value)
        return comment_above(text.splitlines(), node.lineno)
    raise KeyError(name)


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
            said = symbol((root / file).read_text(), name)
            assert said, f"{file}: {name} is not explained"
            parts.append(f"### `{name}`\n\n{said}\n")
    parts.append(
        "## Flags\n\nIn another workspace they begin with `@xla_ffi_kit`.\n\n"
        f"{flags(root)}\n"
    )
    return "\n".join(parts)


if __name__ == "__main__":
    (ROOT / PAGE).write_text(page())
