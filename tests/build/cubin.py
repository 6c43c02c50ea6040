"""Reads what the kernels in a library need, without any tool of CUDA.

    python cubin.py LIBRARY      prints what each kernel needs

Machine code for a GPU is an ELF file, a cubin, in an entry of `.nv_fatbin` (see
fatbin.py). Its `.nv.info` sections, which are not documented either, hold
attributes of the kernels; what is read here was compared with the report of
`ptxas -v`.
"""

from __future__ import annotations

import dataclasses
import pathlib
import re
import struct
import sys
from collections.abc import Iterator

import fatbin

_REGISTERS, _STACK = 0x2F, 0x11
_HAS_PAYLOAD = 4

# C++'s mangled names of the types that kernels have beside the kit's.
_TYPES = {"f": "float", "d": "double", "h": "uint8", "t": "uint16"}
_TYPES |= {"j": "uint32", "m": "uint64"}

# Of one processor, on every GPU in the library.
_REGISTER_FILE = 65536
_MOST_WARPS = 64


@dataclasses.dataclass(frozen=True, order=True)
class Kernel:
    """What one kernel needs on one kind of GPU.

    Attributes:
      architecture: 90 for compute capability 9.0.
      name: the kernel and its template arguments.
      registers: of a thread.
      shared: bytes of shared memory that the kernel declares.
      stack: bytes of local memory of a thread: spilled registers.
    """

    architecture: int
    name: str
    registers: int
    shared: int
    stack: int

    @property
    def warps(self) -> int:
        """How many warps of it a processor has registers for."""
        of_warp = (self.registers + 7) // 8 * 8 * 32
        return min(_REGISTER_FILE // of_warp, _MOST_WARPS)

    def row(self) -> str:
        """Its line of the table."""
        return (
            f"{self.architecture:3} {self.registers:3} {self.shared:5} "
            f"{self.warps:2}  {self.name}"
        )


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _HAS_PAYLOAD:
            yield kind, info[at : at + size]
            at += size


def readable(mangled: str) -> str:
    """The names and the numbers in the mangled name of a kernel.

    As much of C++'s mangling as kernels' names have: their namespaces are left
    out, and so are their parameters, which repeat the template's arguments.
    """
    words, at = [], mangled.index("_Z") + 2
    while at < len(mangled):
        name = re.match(r"\d+", mangled[at:])
        literal = re.match(r"L[ib](\d+)E", mangled[at:])
        if name:
            begin = at + name.end()
            at = begin + int(name[0])
            if mangled[begin].isupper():  # no namespace
                words.append(mangled[begin:at])
        elif literal:
            at += literal.end()
            words.append(literal[1])
        elif mangled[at : at + 3] == "EEv":
            break
        elif enum := re.match(r"E(\d+)E", mangled[at:]):
            words[-1] += enum[1]
            at += enum.end()
        elif mangled[at] in _TYPES:
            words.append(_TYPES[mangled[at]])
            at += 1
        elif mangled[at] == "S":
            end = re.match(r"S[t\d]?_?", mangled[at:])
            at += end.end() if end else 1
        else:
            at += 1
    hidden = {"Vectors", "Elements"}
    return " ".join(w for w in words if w not in hidden)


def _kernels_in(cubin: bytes, architecture: int) -> Iterator[Kernel]:
    sections = fatbin.sections(cubin)
    table, names = sections[".symtab"][1], sections[".strtab"][1]
    symbols = [
        struct.unpack_from("<I", table, at)[0]
        for at in range(0, len(table), 24)
    ]

    def name(symbol: int) -> str:
        begin = symbols[symbol]
        return names[begin : names.index(b"\0", begin)].decode()

    found: dict[str, dict[int, int]] = {}
    for kind, payload in _attributes(sections[".nv.info"][1]):
        if kind in (_REGISTERS, _STACK):
            symbol, value = struct.unpack("<II", payload)
            found.setdefault(name(symbol), {})[kind] = value
    for kernel, values in found.items():
        if f".text.{kernel}" not in sections or _REGISTERS not in values:
            continue
        yield Kernel(
            architecture,
            readable(kernel),
            values[_REGISTERS],
            sections.get(f".nv.shared.{kernel}", (0, b""))[0],
            values.get(_STACK, 0),
        )


def kernels(library: pathlib.Path) -> list[Kernel]:
    """All kernels of a library, for all GPUs that it has machine code for."""
    return sorted(
        kernel
        for architecture, cubin in fatbin.cubins(library)
        for kernel in _kernels_in(cubin, architecture)
    )


if __name__ == "__main__":
    for each in kernels(pathlib.Path(sys.argv[1])):
        print(each.row())
