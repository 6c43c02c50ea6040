"""Every block of the documentation is run, or is what is built and run.

Those of the tutorial stand in its programs. Elsewhere python_blocks_test runs
Python, e2e/new_op_run what the pages on adding an operation say. A block that
nothing can run has a comment above it: `<!-- not run: WHY -->`.
"""

import re

import pages
import pytest
from pages import ROOT, Block

# Commands have to be in one of these, word for word.
SCRIPTS = (".ci/run", "e2e/run", "e2e/new_op_run", "e2e/mistakes_run")
WALKED = ("docs/adding_an_op.md",)


def commands(script: str) -> list[str]:
    """The commands of a shell script, without comments, one to a string."""
    joined = script.replace("\\\n", " ")
    stripped = (re.sub(r"(^|\s+)#.*", "", s) for s in joined.splitlines())
    found = [re.sub(r"\s+", " ", s).strip() for s in stripped]
    return [s for s in found if s]


def normalized(text: str) -> str:
    """The text without white space, trailing commas and comments."""
    return re.sub(r"#.*|\s+|,(?=\s*(\)|$))", "", text)


RUN = "\n".join(c for s in SCRIPTS for c in commands((ROOT / s).read_text()))
CONSUMER = ROOT / "e2e/consumer"
OWN_XLA = ROOT / "e2e/own_xla"
BUILT = "".join(
    normalized((folder / file).read_text())
    for folder, file in (
        (CONSUMER, "MODULE.bazel"),
        (CONSUMER, "BUILD"),
        (OWN_XLA, "MODULE.bazel"),
        (OWN_XLA, "WORKSPACE"),
    )
)


def unindented(text: str) -> str:
    lines = text.replace("@xla_ffi_kit//", "//").splitlines()
    return "\n" + "".join(f"{line.strip()}\n" for line in lines)


PROGRAMS = [
    unindented(file.read_text())
    for file in [*(ROOT / "examples/tutorial").glob("*"), CONSUMER / "BUILD"]
    if file.suffix in (".cc", ".h", ".py", ".txt") or file.name == "BUILD"
]


def stands_in_programs(text: str) -> bool:
    """Whether each paragraph stands in a file of examples/tutorial."""
    paragraphs = [unindented(p) for p in text.split("\n\n")]
    return all(any(p in program for program in PROGRAMS) for p in paragraphs)


def not_checked(block: Block) -> list[str]:
    """What of a block nothing runs or builds."""
    if re.fullmatch(r"<!-- not run: .+ -->\s*", block.above):
        return []
    if block.page.startswith(pages.TUTORIAL) or block.language in (
        "c++",
        "cmake",
    ):
        return [] if stands_in_programs(block.text) else [block.text]
    if block.language in ("python", "output"):
        return []
    if block.page in WALKED:
        return []
    if block.language == "sh":
        return [c for c in commands(block.text) if c not in RUN]
    if block.language == "bazelrc":
        own = (OWN_XLA / ".bazelrc").read_text().splitlines()
        own += [line.replace(":workspace ", " ") for line in own]
        return [line for line in block.text.splitlines() if line not in own]
    if block.language == "starlark":
        # Where the kit is differs.
        lines = re.sub("local_repository.*", "", block.text).splitlines()
        return [line for line in lines if normalized(line) not in BUILT]
    return [block.text]


@pytest.mark.parametrize(
    "block", [b for p in pages.pages() for b in pages.blocks(p)], ids=str
)
def test_something_runs_or_builds_it(block):
    assert not_checked(block) == [], (
        "let a test or a script run it, or write `<!-- not run: WHY -->` above"
    )


def test_each_row_of_the_older_spellings_is_asserted():
    page = (ROOT / pages.TUTORIAL / "from_jax_extend_ffi.md").read_text()
    rows = re.findall(r"(?m)^\| `([^`]+)` \| `([^`]+)`", page)
    assert len(rows) > 15
    program = "examples/tutorial/from_jax_extend_ffi_test.py"
    text = " ".join((ROOT / program).read_text().split())
    asserted = [r for r in rows if f'"{r[0]}", "{r[1]}"' in text]
    # Two rows are calls, which test_calls makes.
    assert [r[0][:9] for r in rows if r not in asserted] == ["ffi_call("] * 2


def test_the_table_of_hijax_is_its_program_s():
    text = (ROOT / "examples/tutorial/from_hijax_test.py").read_text()
    page = (ROOT / "docs/tutorial/from_hijax.md").read_text()
    rows = re.findall(r"^\|.*\| (?:yes|no|gathers) \|$", page, re.MULTILINE)
    assert len(rows) == 20
    assert "\n".join(rows) in text


def test_the_walk_is_in_the_ci():
    walk = (ROOT / "e2e/new_op_run").read_text()
    assert f"page={' '.join(WALKED)}\n" in walk
    assert ':walk_through \\\n  -- "$page" ' in walk
    assert "./new_op_run" in (ROOT / "e2e/run").read_text()
    assert "e2e/run" in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize("command", ["test //...", "run //examples:quickstart"])
def test_the_ci_runs_the_commands_of_the_readme(command):
    shown = [b for b in pages.blocks("README.md") if b.language == "sh"]
    assert any(f"tools/bazel {command}\n" in block.text for block in shown)
    assert f"tools/bazel {command} " in (ROOT / ".ci/run").read_text()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("```sh\ntools/bazel test //...   # all\nrm -rf /\n```", ["rm -rf /"]),
        ("<!-- not run: no -->\n```sh\nrm -rf /\n```", []),
        ("```c++\nint x;\n```", ["int x;\n"]),
        ("```starlark\nno_rule(1)\n```", ["no_rule(1)"]),
        ("* a\n\n  ```\n  b\n  ```\n", ["b\n"]),
        ("```python\nx\n```\n\n    indented\n", []),
    ],
)
def test_what_nothing_runs_is_found(text, found):
    (block,) = pages.blocks("docs/page.md", text)
    assert not_checked(block) == found
