"""Tests find the bytecode of JAX and write none of their own."""

import importlib.util
import pathlib

import pytest

PACKAGES = ("jax", "jaxlib", "numpy")


@pytest.mark.parametrize("package", PACKAGES)
def test_python_takes_it_without_a_look_at_the_source(package):
    spec = importlib.util.find_spec(package)
    bytecode = pathlib.Path(spec.cached).read_bytes()
    assert bytecode[:4] == importlib.util.MAGIC_NUMBER
    # PEP 552: based on a hash, which is not checked.
    assert int.from_bytes(bytecode[4:8], "little") == 1


@pytest.mark.parametrize("package", PACKAGES)
def test_of_every_module_that_is_python(package):
    (folder,) = importlib.util.find_spec(package).submodule_search_locations
    missing = [
        source
        for source in pathlib.Path(folder).rglob("*.py")
        if not pathlib.Path(
            importlib.util.cache_from_source(str(source))
        ).exists()
    ]
    assert missing == []
