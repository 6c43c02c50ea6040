"""third_party/cc/nm.py prints what nm of binutils prints."""

import pathlib
import subprocess
import sys

NM = pathlib.Path("third_party/cc/nm.py")
LIBRARY = pathlib.Path(sys.argv[1])


def lines(*command):
    """The sorted lines of a command that define something."""
    said = subprocess.run(
        command, capture_output=True, text=True, check=True
    ).stdout
    return sorted(line for line in said.splitlines() if len(line.split()) == 3)


def test_of_a_library_as_nm():
    expected = lines("nm", LIBRARY)
    assert len(expected) > 100
    assert {line.split()[1] for line in expected} >= set("Tbdrt")
    assert lines(sys.executable, NM, LIBRARY) == [
        # Sections that binutils has letters of its own for.
        line
        for line in expected
        if line.split()[1] not in "iNn"
    ]


def test_of_an_archive_as_nm(tmp_path):
    archive = tmp_path / "a.a"
    odd = tmp_path / "odd"
    odd.write_bytes(b"not an object")
    subprocess.run(["ar", "rcs", archive, odd, LIBRARY], check=True)
    assert lines(sys.executable, NM, archive) == lines("nm", LIBRARY)


def test_what_is_no_object_has_no_symbols(tmp_path):
    text = tmp_path / "text"
    text.write_text("text\n")
    assert lines(sys.executable, NM, text) == []
