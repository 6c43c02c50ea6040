"""Checks and reads a shared library's file before the dynamic linker maps it.

The linker maps a truncated library without an error and the process dies of
SIGBUS on first use; and its messages do not name the architecture. Only 64-bit
little-endian ELF is read (Linux on x86-64 and aarch64), as the System V ABI
defines it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import os
import platform
import re
import stat
import struct
from collections.abc import Iterable, Iterator

_MACHINES = {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le"}
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")  # their table comes last
_SYMBOL = struct.Struct("<IBBHQQ")
_SHT_SYMTAB, _SHT_DYNSYM = 2, 11
_RESERVED = 0xFF00  # SHN_LORESERVE: numbers from there on are no sections
_FUNCTION = 2  # STT_FUNC
_GLOBAL, _WEAK = 1, 2  # STB_GLOBAL, STB_WEAK
_HIDDEN = (1, 2)  # STV_INTERNAL, STV_HIDDEN
# glibc's message if no library defines a symbol.
_UNDEFINED = re.compile(r"undefined symbol: (?P<name>\w+)")
# glibc's message if a library needs a newer system.
_VERSION_NOT_FOUND = re.compile(
    r"(?P<file>\S+): version `(?P<name>\w+?)_(?P<version>[0-9.]+)' not found"
)


def problem(path: str) -> str | None:
    """Says in a few words why `path` cannot be loaded; None if it can."""
    try:
        return _problem(path)
    except OSError as error:  # a folder, or a file of somebody else's
        return f"cannot be read: {error.strerror}"


def _problem(path: str) -> str | None:
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
        if header[12] and header[11] != _SECTION.size:
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


@dataclasses.dataclass(frozen=True)
class Exports:
    """The symbols that other libraries can see."""

    functions: list[str]
    objects: list[str]
    glibc: str | None  # the newest version that the library asks for, "2.34"


@dataclasses.dataclass(frozen=True)
class _Symbol:
    """A line of a symbol table."""

    at: int  # in the file
    name: str
    info: int
    other: int
    section: int

    @property
    def is_global(self) -> bool:
        return self.info >> 4 in (_GLOBAL, _WEAK)

    @property
    def is_defined(self) -> bool:
        return 0 < self.section < _RESERVED


def _symbols(
    data: mmap.mmap | bytearray, kind: int
) -> tuple[Iterator[_Symbol], bytes]:
    """The symbols of a file's table of a kind, and all of its names."""
    header = _HEADER.unpack_from(data)
    at, count = header[6], header[12]
    table = data[at : at + count * _SECTION.size]
    sections = [*_SECTION.iter_unpack(table)]
    symbols = names = b""
    begin = 0
    for _, own, _, _, at, size, link, *_ in sections:
        if own == kind:
            begin, symbols = at, bytes(data[at : at + size])
            at, size = sections[link][4:6]
            names = bytes(data[at : at + size])
    lines = enumerate(_SYMBOL.iter_unpack(symbols))
    return (
        _Symbol(
            begin + i * _SYMBOL.size,
            names[at : names.index(b"\0", at)].decode(),
            *rest,
        )
        for i, (at, *rest, _, _) in lines
    ), names


def exports(path: str) -> Exports:
    """Reads the symbols of a library that can be loaded (`problem`)."""
    functions: list[str] = []
    objects: list[str] = []
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        symbols, names = _symbols(data, _SHT_DYNSYM)
        for symbol in symbols:
            is_visible = symbol.other & 3 not in _HIDDEN
            if symbol.is_global and symbol.is_defined and is_visible:
                is_function = symbol.info & 15 == _FUNCTION
                (functions if is_function else objects).append(symbol.name)
    return Exports(sorted(functions), sorted(objects), _newest(names, "GLIBC"))


# What a module of Python defines, and what the interpreter that loads it does.
MODULE = "PyInit_"
_OF_PYTHON = ("Py", "_Py")


def leave_to_python(paths: Iterable[str]) -> None:
    """Lets a linker leave the interpreter's functions undefined.

    If one of the objects is a module of Python, the symbols Py* that no object
    defines become weak in all of them, and all others stay an error.
    """
    files = {}
    for path in paths:
        with open(path, "rb") as file:
            files[path] = bytearray(file.read())
    files = {p: f for p, f in files.items() if f[:4] == b"\x7fELF"}
    tables = {p: [*_symbols(f, _SHT_SYMTAB)[0]] for p, f in files.items()}
    symbols = [(p, s) for p, table in tables.items() for s in table]
    if not any(s.name.startswith(MODULE) and s.is_defined for _, s in symbols):
        return
    for path, symbol in symbols:
        is_undefined = symbol.is_global and symbol.section == 0
        if is_undefined and symbol.name.startswith(_OF_PYTHON):
            files[path][symbol.at + 4] = _WEAK << 4 | symbol.info & 15
    for path, data in files.items():
        with open(path, "wb") as file:
            file.write(data)


def too_old_a_system(error: str) -> str | None:
    """Says what the linker's message means if it misses a symbol version.

    Args:
      error: the error message of dlopen().
    """
    match = _VERSION_NOT_FOUND.search(error)
    if match is None:
        return None
    name = match["name"]
    system = os.path.basename(match["file"])
    return (
        f"needs {name}_{match['version']} of {system}, but this machine's "
        f"{system} has {_offered(match['file'], name)}: use a newer system, or "
        "build the library on one that is as old as this"
    )


def undefined(error: str) -> str | None:
    """Says what the linker's message means if it misses a symbol.

    Args:
      error: the error message of dlopen().
    """
    match = _UNDEFINED.search(error)
    if match is None:
        return None
    name = match["name"]
    shown = _demangled(name)
    if shown != name:
        shown = f"{shown} ({name})"
    return (
        f"needs {shown}, which neither it nor a library that it is linked with "
        "defines: build it with the source that does, or link it with -l"
    )


def _demangled(name: str) -> str:
    """A symbol as C++ writes it; the symbol itself if it is C's."""
    if not name.startswith("_Z"):
        return name
    size, status = ctypes.c_size_t(), ctypes.c_int()
    try:
        demangle = ctypes.CDLL("libstdc++.so.6")["__cxa_demangle"]
        free = ctypes.CDLL(None)["free"]
    except (OSError, AttributeError):
        return name
    demangle.restype, free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    at = demangle(name.encode(), None, ctypes.byref(size), ctypes.byref(status))
    if not at:
        return name
    text = ctypes.string_at(at).decode(errors="replace")
    free(at)
    return text


def _offered(path: str, name: str) -> str:
    """The newest version `name` that a system library offers."""
    try:
        with open(path, "rb") as file:
            newest = _newest(file.read(), name)
    except OSError:
        return "only older ones"
    return f"none after {name}_{newest}" if newest else "none"


def _newest(data: bytes, name: str) -> str | None:
    """The newest version `name` in a string table, which has each of them."""
    pattern = rb"\0" + name.encode() + rb"_([0-9]{1,9}(?:\.[0-9]{1,9})*)(?=\0)"
    return max(
        (version.decode() for version in re.findall(pattern, data)),
        key=lambda version: tuple(map(int, version.split("."))),
        default=None,
    )
