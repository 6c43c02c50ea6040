"""What a shared library exports and needs, read from its file alone.

The dynamic symbols, the libraries it is linked against and the versions of
their symbols it asks for, after the System V ABI and the LSB's symbol
versioning. Nothing is loaded, so none of the library's code runs.
"""

from __future__ import annotations

import dataclasses
import mmap
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


class ElfError(ValueError):
    """A file is not a shared library for this machine; says why."""


@dataclasses.dataclass(frozen=True)
class SharedLibrary:
    """What the dynamic linker would see."""

    functions: tuple[str, ...]  # exported
    objects: tuple[str, ...]  # what else is exported
    needed: tuple[str, ...]  # the libraries it is linked against
    versions: tuple[str, ...]  # of symbols it asks for, e.g. "GLIBC_2.34"
    calls_ffi: bool  # it contains code of XLA's FFI headers

    @property
    def glibc(self) -> tuple[int, ...] | None:
        """The oldest glibc that it loads with, as far as it says."""
        found = [
            tuple(map(int, v.removeprefix("GLIBC_").split(".")))
            for v in self.versions
            if v.removeprefix("GLIBC_").replace(".", "").isdigit()
        ]
        return max(found, default=None)


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
        except (struct.error, IndexError, UnicodeDecodeError) as error:
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
    for section in sections:
        if section.kind not in (_SHT_DYNSYM, _SHT_DYNAMIC, _SHT_VERNEED):
            continue
        strings = sections[section.link].at
        if section.kind == _SHT_DYNSYM:
            for name, is_function in _exports(data, section, strings):
                (functions if is_function else objects).append(name)
        elif section.kind == _SHT_DYNAMIC:
            needed += _needed(data, section, strings)
        else:
            versions += _versions(data, section, strings)
    return SharedLibrary(
        tuple(sorted(functions)),
        tuple(sorted(objects)),
        tuple(needed),
        tuple(sorted(set(versions))),
        data.find(_FFI_MARK) >= 0,
    )


def _sections(data: mmap.mmap) -> Iterator[_Section]:
    header = _HEADER.unpack_from(data, 0)
    at, size, count = header[6], header[11], header[12]
    for i in range(count):
        s = _SECTION.unpack_from(data, at + i * size)
        yield _Section(s[1], s[4], s[5], s[6], s[9])


def _string(data: mmap.mmap, at: int) -> str:
    end = data.find(b"\0", at)
    if at > len(data) or end < 0:
        raise IndexError("a name lies outside the file")
    return data[at:end].decode()


def _table(data: mmap.mmap, section: _Section, item: struct.Struct) -> range:
    """Where the items of a section begin."""
    if section.at + section.size > len(data):
        raise IndexError("a section lies outside the file")
    step = section.entry_size or item.size
    return range(section.at, section.at + section.size - item.size + 1, step)


def _exports(
    data: mmap.mmap, section: _Section, strings: int
) -> Iterator[tuple[str, bool]]:
    for at in _table(data, section, _SYMBOL):
        name, info, other, index, _, _ = _SYMBOL.unpack_from(data, at)
        visible = info >> 4 in _GLOBAL_OR_WEAK and other & 3 not in _HIDDEN
        if index and visible:
            yield _string(data, strings + name), info & 15 == _FUNCTION


def _needed(data: mmap.mmap, section: _Section, strings: int) -> Iterator[str]:
    for at in _table(data, section, _DYNAMIC):
        tag, value = _DYNAMIC.unpack_from(data, at)
        if tag == _DT_NEEDED:
            yield _string(data, strings + value)


def _versions(
    data: mmap.mmap, section: _Section, strings: int
) -> Iterator[str]:
    at, end = section.at, section.at + section.size
    while True:
        _, count, _, first, following = _VERNEED.unpack_from(data, at)
        entry = at + first
        for _ in range(count):
            _, _, _, name, step = _VERNAUX.unpack_from(data, entry)
            yield _string(data, strings + name)
            if not step:
                break
            entry += step
        at += following
        # Offsets only lead onwards, so a malformed file ends as well.
        if not following or at >= end:
            return
