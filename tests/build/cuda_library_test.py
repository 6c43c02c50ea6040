"""What a CUDA library holds: code for every GPU, and kernels that fit them.

What a kernel needs decides its speed: with too many registers a thread, a
processor has too few loads on their way. `cuobjdump -res-usage LIBRARY` prints
what each kernel of a library needs on each GPU.
"""

import collections
import functools
import pathlib
import re
import subprocess
import sys
import zlib

LIBRARY = pathlib.Path(sys.argv[1])
CAPABILITIES = sys.argv[2].split(",")
SOURCES = pathlib.Path(sys.argv[3]).read_text().split()

# A processor of 64 warps needs about half of them to reach the memory's speed,
# each with several loads of 16 bytes on their way. A pipeline needs fewer: its
# loads are on their way to shared memory, and take no registers.
FLOORS = {
    "ColumnsKernel": 32,
    "ElementwiseKernel": 40,
    "PipelineKernel": 19,
    "RowsInRegisters": 32,
    "RowsInShared": 32,
    "RowsReadTwice": 32,
    "TotalsKernel": 42,
}


@functools.cache
def cuobjdump(option):
    """What CUDA's cuobjdump prints; names of C++ are demangled."""
    (program,) = (
        path
        for folder in sys.path
        if (path := pathlib.Path(folder, "nvidia/cu13/bin/cuobjdump")).exists()
    )
    said = subprocess.check_output([program, option, LIBRARY], text=True)
    return subprocess.check_output(["c++filt"], input=said, text=True)


def kernels():
    """Names, whole and short, registers of a thread, bytes of its stack."""
    return re.findall(
        r"Function (void (?:\w+::)*(\w+)<.*):\n *REG:(\d+) STACK:(\d+) ",
        cuobjdump("-res-usage"),
    )


def counted(option):
    files = re.findall(r"sm_(\w+)\.\w+$", cuobjdump(option), re.M)
    return collections.Counter(files)


def test_machine_code_for_each_and_ptx_for_the_newest():
    assert SOURCES
    assert counted("-lelf") == dict.fromkeys(CAPABILITIES, len(SOURCES))
    assert counted("-lptx") == {max(CAPABILITIES, key=int): len(SOURCES)}


def test_no_kernel_spills():
    of_one = {"ElementwiseKernel"}
    expected = FLOORS.keys() if len(SOURCES) > 1 else of_one
    assert {short for _, short, _, _ in kernels()} == expected
    assert [kernel for kernel in kernels() if kernel[-1] != "0"] == []


def warps(registers):
    """How many warps one processor has registers for, on each of the GPUs."""
    of_warp = (registers + 7) // 8 * 8 * 32
    return min(65536 // of_warp, 64)


def test_no_kernel_has_fewer_warps_than_its_floor():
    assert [
        (name, registers)
        for name, short, registers, _ in kernels()
        if warps(int(registers)) < FLOORS[short]
    ] == []


def test_the_library_adds_little_to_a_wheel():
    library = LIBRARY.read_bytes()
    assert len(library) < 5 << 20
    # A wheel deflates its files.
    assert len(zlib.compress(library)) < 3 << 19
