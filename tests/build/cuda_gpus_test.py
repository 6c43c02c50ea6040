"""Every CUDA source has code for every GPU that the build asks for."""

import collections
import pathlib
import re
import sys

from cuobjdump import cuobjdump

LIBRARY = pathlib.Path(sys.argv[1])
CAPABILITIES = sys.argv[2].split(",")
SOURCES = pathlib.Path(sys.argv[3]).read_text().split()


def counted(option):
    files = re.findall(r"sm_(\w+)\.\w+$", cuobjdump(option, LIBRARY), re.M)
    return collections.Counter(files)


def test_machine_code_for_each_and_ptx_for_the_newest():
    assert SOURCES
    assert counted("-lelf") == dict.fromkeys(CAPABILITIES, len(SOURCES))
    assert counted("-lptx") == {max(CAPABILITIES, key=int): len(SOURCES)}
