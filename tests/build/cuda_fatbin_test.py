"""Every CUDA source has code for every GPU that the build asks for."""

import pathlib
import sys

import fatbin
import pytest

LIBRARY, CAPABILITIES, SOURCES = map(pathlib.Path, sys.argv[1:4])


def test_machine_code_for_each_and_ptx_for_the_newest():
    wanted = [int(text) for text in CAPABILITIES.read_text().split()]
    expected = {("sass", number) for number in wanted}
    expected.add(("ptx", max(wanted)))
    sources = SOURCES.read_text().split()
    assert sources
    assert fatbin.architectures(LIBRARY) == [expected] * len(sources)


def test_a_library_without_cuda_code_is_told_apart():
    with pytest.raises(ValueError):
        fatbin.architectures(pathlib.Path(sys.executable))
