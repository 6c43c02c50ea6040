"""The FFI headers of @xla are those of openxla/xla at the pinned commit."""

import hashlib
import pathlib
import sys
import unittest

PINNED = dict(pin.split("=") for pin in sys.argv[1].split(","))
HEADERS = {path.name: path for path in map(pathlib.Path, sys.argv[2:])}


class HeaderHashesTest(unittest.TestCase):
    def test_each_header_has_its_pinned_hash(self):
        self.assertEqual(
            PINNED,
            {
                name: hashlib.sha256(path.read_bytes()).hexdigest()
                for name, path in HEADERS.items()
            },
        )
