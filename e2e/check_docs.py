"""Checks that the snippets of docs/embedding.md are those that e2e builds."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "embedding.md"
CONSUMER = HERE / "consumer"
# In the page's order. The first line of each is where the kit comes from, which
# differs here.
BUILT = ["WORKSPACE", "MODULE.bazel", "BUILD"]


def normalized(text: str) -> str:
    """The text without white space, trailing commas and comments."""
    return re.sub(r"\s+|,(?=\s*\))|#.*", "", text)


def main() -> int:
    """Prints each line that no consumer has; returns how many there are."""
    snippets = re.findall(r"```starlark\n(.*?)```", PAGE.read_text(), re.DOTALL)
    missing = 0
    for name, snippet in zip(BUILT, snippets, strict=True):
        built = normalized((CONSUMER / name).read_text())
        if name == "BUILD":
            statements = snippet.split("\n\n")
        else:
            statements = snippet.splitlines()[1:]
        for statement in statements:
            if normalized(statement) not in built:
                print(f"{PAGE.name}: not in {name}: {statement}")
                missing += 1
    return missing


if __name__ == "__main__":
    sys.exit(main())
