"""Checks that a test runs or compares every block of code in the documentation.

CHECKED says which one. What no test can run is in NOT_RUN, with the reason; a
block or a command that is in neither is an error, and so is an entry of theirs
that is no longer in the page.
"""

import pathlib
import re
import sys
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)

# (page, language) -> what runs or compares all such blocks of the page; that
# file has to name the page. docs_test.py goes through all pages of docs/.
DOCS_TEST = "tests/jax/docs_test.py"
CHECKED = {
    ("README.md", "python"): "tests/docs/readme_test.py",
    ("README.md", "c++"): "tests/docs/readme_test.py",
    ("docs/adding_an_op.md", ""): "e2e/new_op_run",
    ("docs/adding_an_op.md", "diff"): "e2e/new_op_run",
    ("docs/adding_an_op.md", "sh"): "e2e/new_op_run",
    ("docs/adding_an_op.md", "starlark"): "e2e/new_op_run",
    ("docs/embedding.md", "starlark"): "e2e/check_docs.py",
}

# Commands in other `sh` blocks have to be in one of these, word for word.
SCRIPTS = (".ci/run", "e2e/run", "e2e/new_op_run", "e2e/mistakes_run")

# (page, first line of the block, or the command) -> why nothing runs it.
_DOCTOR = "doctor_test.py runs it, on libraries that it makes"
_DOCTOR_OUTPUT = "an environment's own; doctor_test.py compares the handlers"
NOT_RUN = {
    (
        "docs/cuda.md",
        "tools/bazel build --config=cuda //...",
    ): "compiles everything twice; .ci/run's stage cuda builds most of it",
    (
        "docs/cuda.md",
        "tools/bazel build --config=cuda //tests:gpu_bundle",
    ): "the stage cuda builds //tests/gpu/..., where it is",
    (
        "docs/cuda.md",
        "tar xzf bazel-bin/tests/gpu/xla_ffi_kit_gpu.tar.gz",
    ): "needs a machine with a GPU",
    (
        "docs/cuda.md",
        "python xla_ffi_kit_gpu/run.py",
    ): "needs a machine with a GPU",
    ("docs/doctor.md", "tools/bazel run //tools:doctor -- LIBRARY.so"): _DOCTOR,
    ("docs/doctor.md", "python -m xla_ffi_kit doctor LIBRARY.so"): _DOCTOR,
    ("docs/doctor.md", "python -m xla_ffi_kit doctor"): _DOCTOR,
    (
        "docs/doctor.md",
        "$ python -m xla_ffi_kit doctor xla_ffi_kit_cpu.so",
    ): _DOCTOR_OUTPUT,
    (
        "docs/doctor.md",
        "$ python -m xla_ffi_kit doctor stranger.so",
    ): _DOCTOR_OUTPUT,
    (
        "docs/doctor.md",
        "$ python -m xla_ffi_kit doctor _sparse.so",
    ): _DOCTOR_OUTPUT,
    (
        "docs/doctor.md",
        "$ python -m xla_ffi_kit doctor notes.txt",
    ): _DOCTOR_OUTPUT,
    ("docs/doctor.md", "$ python -m xla_ffi_kit doctor"): _DOCTOR_OUTPUT,
}


def pages(root: pathlib.Path) -> list[pathlib.Path]:
    return [root / "README.md", *sorted(root.glob("docs/*.md"))]


def blocks(root: pathlib.Path) -> Iterator[tuple[str, int, str, list[str]]]:
    """(page, line, language, parts): commands, or the first line of others."""
    for path in pages(root):
        text = path.read_text()
        for match in BLOCK.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            language, block = match.groups()
            parts = [block.split("\n")[0]]
            if language == "sh":
                parts = commands(block)
            yield path.relative_to(root).as_posix(), line, language, parts


def commands(script: str) -> list[str]:
    """The commands of a shell script, without comments, one to a string."""
    joined = script.replace("\\\n", " ")
    stripped = (re.sub(r"(^|\s+)#.*", "", s) for s in joined.splitlines())
    found = [re.sub(r"\s+", " ", s).strip() for s in stripped]
    return [s for s in found if s]


def unchecked(root: pathlib.Path) -> list[str]:
    """Says which blocks and commands nothing runs."""
    scripts = "\n".join(
        command for s in SCRIPTS for command in commands((root / s).read_text())
    )
    found = []
    for page, line, language, parts in blocks(root):
        in_docs = page.startswith("docs/")
        if (page, language) in CHECKED or (in_docs and language == "python"):
            continue
        for part in parts:
            is_run = language == "sh" and part in scripts
            if not is_run and (page, part) not in NOT_RUN:
                found.append(
                    f"{page}:{line}: no test runs {part!r}: let one do so and "
                    "say in CHECKED which, or say in NOT_RUN why none can"
                )
    return found


def stale(root: pathlib.Path) -> list[str]:
    """Says which entries of the two lists speak of what is not there."""
    languages = {(page, language) for page, _, language, _ in blocks(root)}
    there = {(page, part) for page, _, _, all_ in blocks(root) for part in all_}
    found = [
        f"{page} has no {what!r}, which CHECKED or NOT_RUN names"
        for page, what in {
            *(CHECKED.keys() - languages),
            *(NOT_RUN.keys() - there),
        }
    ]
    for (page, _), by in CHECKED.items():
        if pathlib.Path(page).name not in (root / by).read_text():
            found.append(f"{by} does not name {page}, which it should check")
    if 'glob("*.md")' not in (root / DOCS_TEST).read_text():
        found.append(f"{DOCS_TEST} does not go through docs/*.md")
    return found


def broken_fences(root: pathlib.Path) -> list[str]:
    found = []
    for path in pages(root):
        fences = re.findall(r"^```.*$", path.read_text(), re.MULTILINE)
        if len(fences) % 2 or any(fence != "```" for fence in fences[1::2]):
            found.append(f"{path.name}: a ``` is not closed")
    return found


def main() -> int:
    """Prints what is wrong; returns how much of it there is."""
    wrong = [*unchecked(ROOT), *stale(ROOT), *broken_fences(ROOT)]
    for problem in wrong:
        print(problem)
    return min(len(wrong), 100)


if __name__ == "__main__":
    sys.exit(main())
