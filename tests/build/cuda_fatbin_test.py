"""Every CUDA source has code for every GPU that the build asks for."""

import pathlib
import sys
import unittest

import fatbin

LIBRARY, CAPABILITIES, SOURCES = map(pathlib.Path, sys.argv[1:4])


class FatbinTest(unittest.TestCase):
    def test_machine_code_for_each_and_ptx_for_the_newest(self):
        wanted = [int(text) for text in CAPABILITIES.read_text().split()]
        self.assertTrue(wanted)
        expected = {("sass", number) for number in wanted}
        expected.add(("ptx", max(wanted)))
        sources = SOURCES.read_text().split()
        self.assertTrue(sources)
        found = fatbin.architectures(LIBRARY)
        self.assertEqual(found, [expected] * len(sources))

    def test_a_library_without_cuda_code_is_told_apart(self):
        with self.assertRaises(ValueError):
            fatbin.architectures(pathlib.Path(sys.executable))
