#!/usr/bin/env python3
"""nm.py FILE...: the symbols that 64-bit ELF objects and archives define.

As `nm` of binutils prints them, which a machine without a compiler lacks: the
value, a letter (T code, D data, B zeros, R constants, V or W weak; small if
local) and the name, for check_handlers.sh.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMTAB, _NOBITS = 2, 8
_WRITE, _EXECUTE = 1, 4
_LOCAL, _WEAK = 0, 2
_OBJECT, _SECTION_SYMBOL, _FILE = 1, 3, 4


def members(data: bytes) -> Iterator[bytes]:
    """The objects in an archive; an object itself."""
    if not data.startswith(b"!<arch>\n"):
        yield data
        return
    at = 8
    while at + 60 <= len(data):
        size = int(data[at + 48 : at + 58])
        yield data[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def symbols(data: bytes) -> Iterator[tuple[int, str, str]]:
    """Value, letter and name of each symbol that an object defines."""
    if not data.startswith(b"\x7fELF\x02\x01"):
        return
    header = _HEADER.unpack_from(data)
    sections = [
        _SECTION.unpack_from(data, header[6] + i * header[11])
        for i in range(header[12])
    ]
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], _SYMBOL.size):
            name, info, _, index, value, _ = _SYMBOL.unpack_from(data, at)
            kind = info & 15
            if not 0 < index < len(sections):
                continue
            if kind in (_SECTION_SYMBOL, _FILE):
                continue
            start = names + name
            text = data[start : data.index(b"\0", start)].decode()
            yield value, letter(sections[index], info >> 4, kind), text


def letter(section: tuple[int, ...], binding: int, kind: int) -> str:
    """The letter for a symbol in a section."""
    if binding == _WEAK:
        return "V" if kind == _OBJECT else "W"
    if section[2] & _EXECUTE:
        found = "T"
    elif section[1] == _NOBITS:
        found = "B"
    else:
        found = "D" if section[2] & _WRITE else "R"
    return found.lower() if binding == _LOCAL else found


def main(paths: list[str]) -> None:
    """Prints the symbols of the files."""
    for path in paths:
        with open(path, "rb") as file:
            for member in members(file.read()):
                for value, kind, name in symbols(member):
                    print(f"{value:016x} {kind} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
