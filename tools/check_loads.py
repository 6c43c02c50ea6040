"""Checks that no BUILD or .bzl file uses a rule that newer Bazels have not.

Bazel 8 and 9 took the rules of C++, Python and shells out of Bazel: each file
has to load those that it uses.
"""

import ast
import pathlib
import re
import subprocess
import sys

MOVED = re.compile(r"(cc|py|sh|java|proto)_[a-z_]+")
# Provided by Bazel 7 as a global, by Bazel 9 only from rules_cc, rules_python.
PROVIDERS = {"CcInfo", "PyInfo", "PyRuntimeInfo", "CcToolchainConfigInfo"}
NOT_RULES = {"cc_common"}


def defined(tree: ast.Module) -> set[str]:
    """Names that a file loads, defines, or has as an argument or variable."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
            names |= {arg.arg for arg in node.args.args}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "load":
            names |= {arg.value for arg in node.args[1:]}
            names |= {keyword.arg for keyword in node.keywords}
    return names


def problems(text: str) -> list[str]:
    """The built-in rules and providers that a file uses."""
    tree = ast.parse(text)
    known = defined(tree)
    found = []
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.Name):
            name = node.id
        elif isinstance(node, ast.Attribute):
            is_native = ast.unparse(node.value) == "native"
            if is_native and MOVED.fullmatch(node.attr):
                found.append(f"native.{node.attr}")
        moved = MOVED.fullmatch(name) and name not in NOT_RULES
        if (moved or name in PROVIDERS) and name not in known:
            found.append(name)
    return found


def main() -> int:
    """Prints each use; returns how many there are."""
    # The codebases in e2e are built with the pinned Bazel, and no other.
    patterns = ["BUILD", "*/BUILD", "*.BUILD", "*.bzl", ":!e2e"]
    listing = subprocess.run(
        ["git", "ls-files", *patterns],
        check=True,
        capture_output=True,
        text=True,
    )
    count = 0
    for path in map(pathlib.Path, listing.stdout.splitlines()):
        for name in problems(path.read_text()) if path.exists() else []:
            print(f"{path}: {name} is not loaded, and Bazel 9 has none")
            count += 1
    return count


if __name__ == "__main__":
    sys.exit(main())
