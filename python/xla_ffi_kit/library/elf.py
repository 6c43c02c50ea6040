"""Checks a shared library's file before the dynamic linker maps it.

The linker maps a truncated library without an error and the process dies of
SIGBUS on first use; and its messages do not name the architecture. Only the
64-bit little-endian ELF header is read (Linux on x86-64 and aarch64).
"""

from __future__ import annotations

import os
import platform
import re
import stat
import struct

_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le"}
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
SECTION_SIZE = 64  # of an entry of the section table, which comes last
# glibc's message if a library needs a newer system.
_VERSION_NOT_FOUND = re.compile(
    r"(?P<file>\S+): version `(?P<name>\w+?)_(?P<version>[0-9.]+)' not found"
)


def problem(path: str) -> str | None:
    """Says in a few words why `path` cannot be loaded; None if it can."""
    about = os.stat(path)
    if not stat.S_ISREG(about.st_mode) and not stat.S_ISDIR(about.st_mode):
        return "is not a regular file"  # to open a pipe could take for ever
    size = about.st_size
    with open(path, "rb") as file:
        data = file.read(_HEADER.size)
        if data[:4] != b"\x7fELF":
            return "is not a shared library (no ELF header)"
        if len(data) < _HEADER.size:
            return f"is truncated ({size} bytes)"
        header = _HEADER.unpack(data)
        machine = _MACHINES.get(header[2], f"ELF machine {header[2]}")
        if data[4] != 2 or machine != platform.machine():
            return f"is built for {machine}, not for {platform.machine()}"
        segments_at, segment_size, count = header[5], header[9], header[10]
        if count and segment_size != _SEGMENT.size:
            return f"is malformed (segments of {segment_size} bytes)"
        if header[12] and header[11] != SECTION_SIZE:
            return f"is malformed (sections of {header[11]} bytes)"
        if segments_at > size:
            return f"is truncated ({size} of {segments_at} bytes)"
        file.seek(segments_at)
        table = file.read(segment_size * count)
    needed = segments_at + segment_size * count
    # Sections come last in the file; a cut anywhere shows in one of the two.
    needed = max(needed, header[6] + header[11] * header[12])
    for at in range(0, len(table) - _SEGMENT.size + 1, _SEGMENT.size):
        segment = _SEGMENT.unpack_from(table, at)
        needed = max(needed, segment[2] + segment[5])
    if size < needed:
        return f"is truncated ({size} of {needed} bytes)"
    return None


def too_old_a_system(error: str) -> str | None:
    """Says what the linker's message means if it misses a symbol version.

    Args:
      error: the error message of dlopen().
    """
    found = _VERSION_NOT_FOUND.search(error)
    if found is None:
        return None
    name = found["name"]
    system = os.path.basename(found["file"])
    return (
        f"needs {name}_{found['version']} of {system}, but this machine's "
        f"{system} has {_newest(found['file'], name)}: use a newer system, or "
        "build the library on one that is as old as this"
    )


def _newest(path: str, name: str) -> str:
    """The newest version `name` that a system library offers."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return "only older ones"
    # Each version that a library defines is a string in its string table.
    pattern = rb"\0" + name.encode() + rb"_([0-9]{1,9}(?:\.[0-9]{1,9})*)(?=\0)"
    versions = [v.decode() for v in re.findall(pattern, data)]
    if not versions:
        return "none"
    newest = max(versions, key=lambda v: tuple(map(int, v.split("."))))
    return f"none after {name}_{newest}"
