"""Does what a page of docs/ says, from top to bottom, in a folder.

    tools/bazel run //tests/docs:walk_through -- PAGE FOLDER [BAZEL_FLAG...]

`sh` blocks run, each in a shell of its own in the folder, with `bazel` being
tools/bazel; `diff` blocks are applied as patches; the lines of any other block
have to stand, in this order, in some file of the folder.
"""

import os
import pathlib
import shlex
import subprocess
import sys

import pages

BAZEL = pathlib.Path(os.environ["BUILD_WORKSPACE_DIRECTORY"], "tools/bazel")
# What `bazel run` tells a program, and would mislead the programs run here.
BAZELS_OWN = ("BUILD_", "RUNFILES_", "PYTHON")
# Flags go between Bazel's command and what follows it.
SHELL = """\
set -eu
bazel() {{
  local command=$1
  shift
  {bazel} "$command" {flags} "$@"
}}
"""


def stands_in_some_file(block: str, folder: pathlib.Path) -> bool:
    """Whether a file has the lines of the block, in this order."""
    wanted = [line.strip() for line in block.splitlines() if line.strip()]
    for file in folder.iterdir():
        if file.is_file():
            # Each `in` goes on where the last one stopped.
            lines = (line.strip() for line in file.read_text().splitlines())
            if all(line in lines for line in wanted):
                return True
    return False


def done(block: pages.Block, folder: pathlib.Path, flags: list[str]) -> bool:
    """Whether what the block says was done, or is so."""
    if block.language == "sh":
        shell = SHELL.format(
            bazel=shlex.quote(str(BAZEL)), flags=shlex.join(flags)
        )
        script = shell + block.text
        command = ["bash", "-c", script]
        return subprocess.run(command, cwd=folder, check=False).returncode == 0
    if block.language == "diff":
        command = ["patch", "--strip=0", "--fuzz=0", "--no-backup-if-mismatch"]
        patched = subprocess.run(
            command, cwd=folder, input=block.text, text=True, check=False
        )
        return patched.returncode == 0
    return stands_in_some_file(block.text, folder)


def main() -> int:
    """Returns 1 after the first block that did not work."""
    page, folder, *flags = sys.argv[1:]
    for name in [n for n in os.environ if n.startswith(BAZELS_OWN)]:
        del os.environ[name]
    for block in pages.blocks(page):
        print(f"--- {block}\n{block.text}", flush=True)
        if not done(block, pathlib.Path(folder), flags):
            print(f"{block}: this did not work", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
