"""A handler library exports its handlers and the table's entry point, only."""

import pathlib
import subprocess
import sys

LIBRARY, EXPECTED = (pathlib.Path(argument) for argument in sys.argv[1:3])
A_HANDLER = sys.argv[3]


def test_exports_are_the_handlers_and_the_entry_point():
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = EXPECTED.read_text().split()
    assert {"XlaFfiKit_GetHandlerTable", A_HANDLER} <= set(expected)
    assert sorted(line.split()[-1] for line in listing.splitlines()) == expected
