"""No kernel spills, and each leaves a processor as many warps as it should.

What a kernel needs decides its speed: with too many registers a thread, a
processor has too few loads on their way. What each kernel of the library needs
on each GPU is printed by

    tools/bazel run --config=cuda //tests/build:cubin -- LIBRARY
"""

import pathlib
import sys
import unittest
import zlib

import cubin

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


class RegistersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = cubin.kernels(LIBRARY)

    def test_no_kernel_spills(self):
        self.assertTrue(self.kernels)
        spilling = [k.row() for k in self.kernels if k.stack]
        self.assertEqual(spilling, [])

    def test_no_kernel_has_fewer_warps_than_its_floor(self):
        below = [
            kernel.row()
            for kernel in self.kernels
            if kernel.warps < FLOORS[kernel.name.split()[0]]
        ]
        self.assertEqual(below, [])


class SizeTest(unittest.TestCase):
    def test_the_library_adds_little_to_a_wheel(self):
        library = LIBRARY.read_bytes()
        self.assertLess(len(library), 5 << 20)
        # A wheel deflates its files.
        self.assertLess(len(zlib.compress(library)), 3 << 19)


class CubinTest(unittest.TestCase):
    def test_names_of_kernels(self):
        of_pipeline = (
            "_ZN11xla_ffi_kit17rms_norm_internal14PipelineKernelINS0_7VectorsI"
            "NS_8BFloat16ELi8EEELb1ELi2ELi1EEEvNS0_4RowsINS_19RmsNormBackward"
            "ArgsINT_7ElementEEEEEPNS7_1AENS0_11PartialSumsENS0_8RowLanesE"
        )
        self.assertEqual(
            cubin.readable(of_pipeline), "PipelineKernel BFloat16 8 1 2 1"
        )
        of_totals = (
            "_ZN11xla_ffi_kit17rms_norm_internal12TotalsKernelILi4EffEEvPKT0_"
            "NS0_11PartialSumsEPT1_"
        )
        self.assertEqual(
            cubin.readable(of_totals), "TotalsKernel 4 float float"
        )
        of_relu = (
            "_ZN11xla_ffi_kit17ElementwiseKernelILi1ENS_4relu43_GLOBAL__N__"
            "c328cff8_10_relu_cu_cc_b73adb198ReluPackIfEEEEvlT0_"
        )
        self.assertEqual(
            cubin.readable(of_relu), "ElementwiseKernel 1 ReluPack float"
        )

    def test_warps_follow_from_registers(self):
        for registers, warps in ((24, 64), (32, 64), (33, 51), (64, 32)):
            kernel = cubin.Kernel(90, "k", registers, 0, 0)
            self.assertEqual(kernel.warps, warps)
