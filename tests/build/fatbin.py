"""Reads which GPUs a library has code for, without any tool of CUDA.

nvcc puts its output into the ELF section `.nv_fatbin`: containers one after
the other, each a header and entries. `fatbinary_section.h` of the toolkit names
the section; the layout of the entries is not documented, and was read off the
output of nvcc 12 and 13. nvcc compresses entries by Zstandard when it is asked
for the smallest library.
"""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Iterator

import zstandard

_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, size
# kind, version, header size, size, (compression), (version), architecture
_ENTRY = struct.Struct("<HHIQIIHHI")
_KINDS = {1: "ptx", 2: "sass"}


def sections(data: bytes) -> dict[str, tuple[int, bytes]]:
    """The size and the contents of each section of a 64-bit ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [
        struct.unpack_from("<IIQQQQ", data, table + i * size)
        for i in range(count)
    ]
    names_at = headers[names][4]
    found = {}
    for name, _, _, _, offset, length in headers:
        end = data.index(b"\0", names_at + name)
        text = data[names_at + name : end].decode()
        found[text] = (length, data[offset : offset + length])
    return found


def _entries(container: bytes, at: int) -> Iterator[tuple[str, int, bytes]]:
    while at < len(container):
        entry = _ENTRY.unpack_from(container, at)
        kind = _KINDS.get(entry[0], f"kind {entry[0]}")
        begin = at + entry[2]
        at = begin + entry[3]
        code = container[begin:at]
        if code.startswith(zstandard.FRAME_HEADER):
            # What follows the frame fills the entry up to a multiple of 8.
            code = zstandard.ZstdDecompressor().decompressobj().decompress(code)
        yield kind, entry[8], code


def _containers(path: pathlib.Path) -> Iterator[list[tuple[str, int, bytes]]]:
    """Per CUDA source in a library, its entries."""
    found = sections(path.read_bytes()).get(".nv_fatbin")
    if found is None:
        raise ValueError("no section .nv_fatbin: no CUDA code")
    section = found[1]
    at = 0
    while (at := section.find(_MAGIC, at)) >= 0:
        _, _, header, size = _CONTAINER.unpack_from(section, at)
        end = at + header + size
        yield list(_entries(section[at:end], header))
        at = end


def cubins(path: pathlib.Path) -> Iterator[tuple[int, bytes]]:
    """The machine code in a library: which GPU it is for, and an ELF file."""
    for entries in _containers(path):
        for kind, architecture, data in entries:
            if kind == "sass":
                yield architecture, data


def architectures(path: pathlib.Path) -> list[set[tuple[str, int]]]:
    """Per CUDA source in a library, what it was compiled to.

    Returns:
      For each source a set of pairs such as ("sass", 90) and ("ptx", 100):
      machine code for compute capability 9.0, PTX for 10.0.
    """
    return [
        {(kind, architecture) for kind, architecture, _ in entries}
        for entries in _containers(path)
    ]
