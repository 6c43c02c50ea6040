"""No kernel spills, and each leaves a processor as many warps as it should.

What a kernel needs decides its speed: with too many registers a thread, a
processor has too few loads on their way. What each kernel of the library needs
on each GPU is printed by

    tools/bazel run --config=cuda //tests/build:cubin -- LIBRARY
"""

import pathlib
import sys
import zlib

import cubin
import pytest

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


@pytest.fixture(scope="module")
def kernels():
    return cubin.kernels(LIBRARY)


def test_no_kernel_spills(kernels):
    assert kernels
    assert [k.row() for k in kernels if k.stack] == []


def test_no_kernel_has_fewer_warps_than_its_floor(kernels):
    assert [
        kernel.row()
        for kernel in kernels
        if kernel.warps < FLOORS[kernel.name.split()[0]]
    ] == []


def test_the_library_adds_little_to_a_wheel():
    library = LIBRARY.read_bytes()
    assert len(library) < 5 << 20
    # A wheel deflates its files.
    assert len(zlib.compress(library)) < 3 << 19


@pytest.mark.parametrize(
    ("mangled", "readable"),
    [
        (
            "_ZN11xla_ffi_kit17rms_norm_internal14PipelineKernelINS0_7VectorsI"
            "NS_8BFloat16ELi8EEELb1ELi2ELi1EEEvNS0_4RowsINS_19RmsNormBackward"
            "ArgsINT_7ElementEEEEEPNS7_1AENS0_11PartialSumsENS0_8RowLanesE",
            "PipelineKernel BFloat16 8 1 2 1",
        ),
        (
            "_ZN11xla_ffi_kit17rms_norm_internal12TotalsKernelILi4EffEEvPKT0_"
            "NS0_11PartialSumsEPT1_",
            "TotalsKernel 4 float float",
        ),
        (
            "_ZN11xla_ffi_kit17ElementwiseKernelILi1ENS_4relu43_GLOBAL__N__"
            "c328cff8_10_relu_cu_cc_b73adb198ReluPackIfEEEEvlT0_",
            "ElementwiseKernel 1 ReluPack float",
        ),
    ],
)
def test_names_of_kernels(mangled, readable):
    assert cubin.readable(mangled) == readable


@pytest.mark.parametrize(
    ("registers", "warps"), [(24, 64), (32, 64), (33, 51), (64, 32)]
)
def test_warps_follow_from_registers(registers, warps):
    assert cubin.Kernel(90, "k", registers, 0, 0).warps == warps
