"""The FFI headers of @xla are those of openxla/xla at the pinned commit."""

import hashlib
import pathlib
import sys

PINNED = dict(pin.split("=") for pin in sys.argv[1].split(","))


def test_each_header_has_its_pinned_hash():
    found = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in map(pathlib.Path, sys.argv[2:])
    }
    assert found == PINNED
