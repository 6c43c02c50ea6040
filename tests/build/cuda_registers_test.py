"""No kernel spills, and each leaves a processor as many warps as it should.

What a kernel needs decides its speed: with too many registers a thread, a
processor has too few loads on their way. `cuobjdump -res-usage LIBRARY` prints
what each kernel of a library needs on each GPU.
"""

import pathlib
import re
import sys
import zlib

from cuobjdump import cuobjdump

LIBRARY = pathlib.Path(sys.argv[1])

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
# Its name, whole and short, registers of a thread, bytes of a thread's stack.
KERNELS = re.findall(
    r"Function (void (?:\w+::)*(\w+)<.*):\n *REG:(\d+) STACK:(\d+) ",
    cuobjdump("-res-usage", LIBRARY),
)


def warps(registers: int) -> int:
    """How many warps one processor has registers for, on each of the GPUs."""
    of_warp = (registers + 7) // 8 * 8 * 32
    return min(65536 // of_warp, 64)


def test_no_kernel_spills():
    assert {short for _, short, _, _ in KERNELS} == FLOORS.keys()
    assert [kernel for kernel in KERNELS if kernel[-1] != "0"] == []


def test_no_kernel_has_fewer_warps_than_its_floor():
    assert [
        (name, registers)
        for name, short, registers, _ in KERNELS
        if warps(int(registers)) < FLOORS[short]
    ] == []


def test_the_library_adds_little_to_a_wheel():
    library = LIBRARY.read_bytes()
    assert len(library) < 5 << 20
    # A wheel deflates its files.
    assert len(zlib.compress(library)) < 3 << 19
