"""Reads which GPUs a library has code for, without any tool of CUDA.

nvcc puts its output into the ELF section `.nv_fatbin`: containers one after
the other, each a header and entries. `fatbinary_section.h` of the toolkit names
the section; the layout of the entries is not documented, and was read off the
output of nvcc 12 and 13.
"""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Iterator

_MAGIC = struct.pack("<I", 0xBA55ED50)
_CONTAINER = struct.Struct("<IHHQ")  # magic, version, header size, size
# kind, version, header size, size, (compression), (version), architecture
_ENTRY = struct.Struct("<HHIQIIHHI")
_KINDS = {1: "ptx", 2: "sass"}


def _section(data: bytes, wanted: bytes) -> bytes:
    """The contents of a section of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF file")
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [
        struct.unpack_from("<IIQQQQ", data, table + i * size)
        for i in range(count)
    ]
    names_at = headers[names][4]
    for name, _, _, _, offset, length in headers:
        end = data.index(b"\0", names_at + name)
        if data[names_at + name : end] == wanted:
            return data[offset : offset + length]
    raise ValueError(f"no section {wanted.decode()}: no CUDA code")


def _entries(container: bytes, at: int) -> Iterator[tuple[str, int]]:
    while at < len(container):
        entry = _ENTRY.unpack_from(container, at)
        yield _KINDS.get(entry[0], f"kind {entry[0]}"), entry[8]
        at += entry[2] + entry[3]


def architectures(path: pathlib.Path) -> list[set[tuple[str, int]]]:
    """Per CUDA source in a library, what it was compiled to.

    Returns:
      For each source a set of pairs such as ("sass", 90) and ("ptx", 100):
      machine code for compute capability 9.0, PTX for 10.0.
    """
    section = _section(path.read_bytes(), b".nv_fatbin")
    containers: list[set[tuple[str, int]]] = []
    at = 0
    while (at := section.find(_MAGIC, at)) >= 0:
        _, _, header, size = _CONTAINER.unpack_from(section, at)
        end = at + header + size
        containers.append(set(_entries(section[at:end], header)))
        at = end
    return containers
