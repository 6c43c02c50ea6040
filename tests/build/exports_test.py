"""A handler library exports handlers, types and the table's entry point.

And nothing else.
"""

import pathlib
import subprocess
import sys

LIBRARY, EXPECTED = (pathlib.Path(argument) for argument in sys.argv[1:3])
SOME = set(sys.argv[3:])


def test_exports_are_the_handlers_and_the_entry_point():
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", LIBRARY],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    expected = EXPECTED.read_text().split()
    assert {"XlaFfiKit_GetHandlerTable", *SOME} <= set(expected)
    assert sorted(line.split()[-1] for line in listing.splitlines()) == expected


def test_it_stays_when_it_is_closed():
    """XLA keeps the addresses of handlers."""
    dynamic = subprocess.run(
        ["readelf", "-d", LIBRARY], check=True, capture_output=True, text=True
    ).stdout
    assert "NODELETE" in dynamic
