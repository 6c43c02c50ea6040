"""Every block of the pages is run, or is part of what is built and run.

python_blocks_test runs Python. A command is in a script of the CI, a line of
Starlark in a codebase of e2e, a block of the tutorial or of C++ in a program of
examples/tutorial. A block that nothing can run has `<!-- not run: WHY -->`
above it.
"""

import re

import pages
import pytest
from pages import ROOT, Block

# Commands have to be in one of these, word for word.
SCRIPTS = (".ci/run", "e2e/run")
BUILT = (
    *("consumer/MODULE.bazel", "consumer/BUILD"),
    *("own_xla/MODULE.bazel", "own_xla/WORKSPACE"),
    "author/MODULE.bazel",
)


def commands(script: str) -> list[str]:
    """The commands of a shell script, without comments, one to a string."""
    joined = re.sub(r"(?m)(^|\s+)#.*", "", script.replace("\\\n", " "))
    return [" ".join(s.split()) for s in joined.splitlines() if s.split()]


def normalized(text: str) -> str:
    """The text without white space, trailing commas and comments."""
    return re.sub(r"#.*|\s+|,(?=\s*(\)|$))", "", text)


def unindented(text: str) -> str:
    lines = text.replace("@xla_ffi_kit//", "//").splitlines()
    return "\n" + "".join(f"{line.strip()}\n" for line in lines)


RUN = "\n".join(c for s in SCRIPTS for c in commands((ROOT / s).read_text()))
STARLARK = "".join(normalized((ROOT / "e2e" / f).read_text()) for f in BUILT)
OPTIONS = (ROOT / "e2e/own_xla/.bazelrc").read_text()
OPTIONS += (ROOT / "e2e/author/.bazelrc").read_text()
OPTIONS += OPTIONS.replace(":workspace ", " ")
PROGRAMS = [
    unindented(file.read_text())
    for file in [
        *(ROOT / "examples/tutorial").glob("*"),
        ROOT / "e2e" / BUILT[1],
    ]
    if file.suffix in (".cc", ".h", ".py", ".txt") or file.name == "BUILD"
]


def not_run(block: Block) -> list[str]:
    """What of a block nothing runs or builds."""
    is_excused = re.fullmatch(r"<!-- not run: .+ -->\s*", block.above)
    if is_excused:
        return []
    in_tutorial = block.page.startswith(pages.TUTORIAL)
    if in_tutorial or block.language in ("c++", "cmake"):
        paragraphs = [unindented(p) for p in block.text.split("\n\n")]
        return [p for p in paragraphs if not any(p in q for q in PROGRAMS)]
    if block.language in ("python", "output"):
        return []
    if block.language == "sh":
        return [c for c in commands(block.text) if c not in RUN]
    lines = block.text.splitlines()
    if block.language == "bazelrc":
        return [line for line in lines if line not in OPTIONS.splitlines()]
    if block.language == "starlark":  # where the kit is differs
        lines = re.sub("local_repository.*", "", block.text).splitlines()
        return [line for line in lines if normalized(line) not in STARLARK]
    return [block.text]


@pytest.mark.parametrize("page", pages.pages())
def test_something_runs_or_builds_every_block(page):
    found = {str(b): rest for b in pages.blocks(page) if (rest := not_run(b))}
    assert found == {}, (
        "let a test or a script run it, or write `<!-- not run: WHY -->` above"
    )


def test_the_ci_runs_the_commands_of_the_readme():
    shown = "".join(b.text for b in pages.blocks("README.md"))
    for command in ("test //...", "run //examples:quickstart"):
        assert f"tools/bazel {command}\n" in shown
        assert f"tools/bazel {command} " in RUN
