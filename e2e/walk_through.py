"""Does what a page of docs/ says, from top to bottom, in a folder.

    walk_through.py PAGE FOLDER [BAZEL_FLAG...]

`sh` blocks run, each in a shell of its own in the folder, with `bazel` being
tools/bazel; `diff` blocks are applied as patches; the lines of any other block
have to stand, in this order, in some file of the folder.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^```(\S*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
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


def done(
    language: str, block: str, folder: pathlib.Path, flags: list[str]
) -> bool:
    """Whether what the block says was done, or is so."""
    if language == "sh":
        bazel = shlex.quote(str(ROOT / "tools" / "bazel"))
        script = SHELL.format(bazel=bazel, flags=shlex.join(flags)) + block
        command = ["bash", "-c", script]
        return subprocess.run(command, cwd=folder, check=False).returncode == 0
    if language == "diff":
        command = ["patch", "--strip=0", "--fuzz=0", "--no-backup-if-mismatch"]
        patched = subprocess.run(
            command, cwd=folder, input=block, text=True, check=False
        )
        return patched.returncode == 0
    return stands_in_some_file(block, folder)


def main() -> int:
    """Returns 1 after the first block that did not work."""
    page, folder, *flags = sys.argv[1:]
    os.environ.pop("BUILD_WORKSPACE_DIRECTORY", None)
    text = pathlib.Path(page).read_text()
    for number, match in enumerate(BLOCK.finditer(text), 1):
        language, block = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        print(f"--- {page}:{line}: block {number}\n{block}", flush=True)
        if not done(language, block, pathlib.Path(folder), flags):
            print(f"{page}:{line}: this did not work", flush=True)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
