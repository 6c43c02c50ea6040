"""Where its headers lie does not show in what is compiled."""

import hashlib
import pathlib
import sys
import unittest

LIBRARIES = [pathlib.Path(argument) for argument in sys.argv[1:3]]


class HeaderParityTest(unittest.TestCase):
    def test_libraries_are_different_files_with_the_same_bytes(self):
        first, second = (path.resolve() for path in LIBRARIES)
        # Two configurations: otherwise this would compare a file with itself.
        self.assertNotEqual(first, second)
        self.assertGreater(first.stat().st_size, 0)
        self.assertEqual(
            hashlib.sha256(first.read_bytes()).hexdigest(),
            hashlib.sha256(second.read_bytes()).hexdigest(),
        )
