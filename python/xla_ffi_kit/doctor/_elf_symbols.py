"""Reads what a shared library exports and needs, without loading it.

It reads the dynamic symbols, the libraries that it is linked against and the
versions of their symbols, as the System V ABI and the LSB's symbol versioning
define them. Nothing is loaded, so none of the library's code runs. A malformed
file may contain anything: tables that share their bytes, names as long as the
file, offsets beyond it. All reads therefore have bounds, far above what a real
library needs.
"""

from __future__ import annotations

import dataclasses
import mmap
import re
import struct
from collections.abc import Iterator

from xla_ffi_kit.library import elf

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_DYNAMIC = struct.Struct("<qQ")
_VERNEED = struct.Struct("<HHIII")
_VERNAUX = struct.Struct("<IHHII")

_SHT_DYNAMIC, _SHT_DYNSYM, _SHT_VERNEED = 6, 11, 0x6FFFFFFE
_DT_NEEDED = 1
_FUNCTION = 2
_GLOBAL_OR_WEAK = (1, 2)
_HIDDEN = (1, 2)  # STV_INTERNAL, STV_HIDDEN

_MOST_ENTRIES = 1 << 20  # of a table
_LONGEST_NAME = 1 << 16
_MOST_NAMES = 1 << 26  # bytes of all names together
_GLIBC = re.compile(r"GLIBC_([0-9]{1,9}(?:\.[0-9]{1,9})*)")


class ElfError(ValueError):
    """A file is not a shared library for this machine; says why."""


@dataclasses.dataclass(frozen=True)
class SharedLibrary:
    """The parts of a library that the dynamic linker reads."""

    functions: tuple[str, ...]  # exported
    objects: tuple[str, ...]  # what else is exported
    needed: tuple[str, ...]  # the libraries it is linked against
    versions: tuple[str, ...]  # of symbols it asks for, e.g. "GLIBC_2.34"
    calls_ffi: bool  # it contains code of XLA's FFI headers

    @property
    def glibc(self) -> tuple[int, ...] | None:
        """The oldest glibc that it loads with, as far as it says."""
        found = filter(None, map(_GLIBC.fullmatch, self.versions))
        versions = [tuple(map(int, v[1].split("."))) for v in found]
        return max(versions, default=None)


# Every handler checks its call frame's size and names the struct if it is not
# what it expects, whatever else was stripped from the library.
_FFI_MARK = b"XLA_FFI_CallFrame\0"


def read(path: str) -> SharedLibrary:
    """Reads the shared library at `path`.

    Raises:
      ElfError: it is not one, for another machine, truncated or malformed.
      OSError: it cannot be read.
    """
    problem = elf.problem(path)
    if problem:
        raise ElfError(problem)
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        try:
            return _read(data)
        except (struct.error, IndexError, ValueError) as error:
            raise ElfError(f"is malformed ({error})") from None


@dataclasses.dataclass(frozen=True)
class _Section:
    kind: int
    at: int
    size: int
    link: int
    entry_size: int


def _read(data: mmap.mmap) -> SharedLibrary:
    sections = list(_sections(data))
    functions: list[str] = []
    objects: list[str] = []
    needed: list[str] = []
    versions: list[str] = []
    names = _Names(data)
    kinds = [section.kind for section in sections]
    for kind in (_SHT_DYNSYM, _SHT_DYNAMIC, _SHT_VERNEED):
        if kinds.count(kind) > 1:
            raise ValueError(f"{kinds.count(kind)} sections of type {kind:#x}")
        if kind not in kinds:
            continue
        section = sections[kinds.index(kind)]
        strings = sections[section.link].at
        if kind == _SHT_DYNSYM:
            for name, is_function in _exports(names, section, strings):
                (functions if is_function else objects).append(name)
        elif kind == _SHT_DYNAMIC:
            needed += _needed(names, section, strings)
        else:
            versions += _versions(names, section, strings)
    return SharedLibrary(
        tuple(sorted(functions)),
        tuple(sorted(objects)),
        tuple(needed),
        tuple(sorted(set(versions))),
        data.find(_FFI_MARK) >= 0,
    )


def _sections(data: mmap.mmap) -> Iterator[_Section]:
    header = _HEADER.unpack_from(data, 0)
    at, count = header[6], header[12]
    for i in range(count):
        s = _SECTION.unpack_from(data, at + i * elf.SECTION_SIZE)
        yield _Section(s[1], s[4], s[5], s[6], s[9])


def printable(name: str) -> str:
    """Returns a name without control codes, which a terminal would obey."""
    return name if name.isprintable() else ascii(name)[1:-1]


class _Names:
    """The names in a file, with a bound on their total length."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self._count = self._size = 0

    def at(self, place: int) -> str:
        if place >= len(self.data):
            raise IndexError("a name lies outside the file")
        end = self.data.find(b"\0", place, place + _LONGEST_NAME)
        if end < 0:
            raise IndexError(f"a name without an end in {_LONGEST_NAME} bytes")
        self._count += 1
        self._size += end - place
        if self._count > _MOST_ENTRIES or self._size > _MOST_NAMES:
            raise ValueError(
                f"more than {_MOST_ENTRIES} names, or {_MOST_NAMES} bytes"
            )
        return printable(self.data[place:end].decode())


def _table(data: mmap.mmap, section: _Section, item: struct.Struct) -> range:
    """Returns where the items of a section begin."""
    if section.at + section.size > len(data):
        raise IndexError("a section lies outside the file")
    if section.entry_size not in (0, item.size):
        raise ValueError(f"a table of entries of {section.entry_size} bytes")
    if section.size > _MOST_ENTRIES * item.size:
        raise ValueError(f"a table of more than {_MOST_ENTRIES} entries")
    end = section.at + section.size
    return range(section.at, end - item.size + 1, item.size)


def _exports(
    names: _Names, section: _Section, strings: int
) -> Iterator[tuple[str, bool]]:
    for at in _table(names.data, section, _SYMBOL):
        name, info, other, index, _, _ = _SYMBOL.unpack_from(names.data, at)
        visible = info >> 4 in _GLOBAL_OR_WEAK and other & 3 not in _HIDDEN
        if index and visible:
            yield names.at(strings + name), info & 15 == _FUNCTION


def _needed(names: _Names, section: _Section, strings: int) -> Iterator[str]:
    for at in _table(names.data, section, _DYNAMIC):
        tag, value = _DYNAMIC.unpack_from(names.data, at)
        if tag == _DT_NEEDED:
            yield names.at(strings + value)


def _versions(names: _Names, section: _Section, strings: int) -> Iterator[str]:
    data, at, end = names.data, section.at, section.at + section.size
    while True:
        if at + _VERNEED.size > len(data):
            raise IndexError("a section lies outside the file")
        _, count, _, first, following = _VERNEED.unpack_from(data, at)
        entry = at + first
        for _ in range(count):
            _, _, _, name, step = _VERNAUX.unpack_from(data, entry)
            yield names.at(strings + name)
            if not step:
                break
            entry += step
        at += following
        # Offsets only lead onwards, so a malformed file ends as well.
        if not following or at >= end:
            return
