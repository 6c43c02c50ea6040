"""Where its headers lie does not show in what is compiled."""

import pathlib
import sys


def test_libraries_are_different_files_with_the_same_bytes():
    first, second = (pathlib.Path(file).resolve() for file in sys.argv[1:3])
    # Two configurations: otherwise this would compare a file with itself.
    assert first != second
    assert first.stat().st_size > 0
    assert first.read_bytes() == second.read_bytes()
