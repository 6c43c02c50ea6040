"""A handler library exports its handlers and the table's entry point, only."""

import pathlib
import subprocess
import sys
import unittest

LIBRARY, EXPECTED = (pathlib.Path(argument) for argument in sys.argv[1:3])
A_HANDLER = sys.argv[3]


def defined_symbols() -> list[str]:
    """The names in the dynamic symbol table that the library defines."""
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(line.split()[-1] for line in listing.splitlines())


class ExportsTest(unittest.TestCase):
    def test_exports_are_the_handlers_and_the_entry_point(self):
        expected = EXPECTED.read_text().split()
        self.assertIn("XlaFfiKit_GetHandlerTable", expected)
        self.assertIn(A_HANDLER, expected)
        self.assertEqual(defined_symbols(), expected)
