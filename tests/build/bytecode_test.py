"""Tests find the bytecode of JAX and write none of their own."""

import importlib.util
import os
import pathlib
import unittest

PACKAGES = ("jax", "jaxlib", "numpy")


class BytecodeTest(unittest.TestCase):
    def test_python_takes_it_without_a_look_at_the_source(self):
        for package in PACKAGES:
            with self.subTest(package):
                spec = importlib.util.find_spec(package)
                bytecode = pathlib.Path(spec.cached).read_bytes()
                self.assertEqual(bytecode[:4], importlib.util.MAGIC_NUMBER)
                # PEP 552: based on a hash, which is not checked.
                self.assertEqual(int.from_bytes(bytecode[4:8], "little"), 1)

    def test_of_every_module_that_is_python(self):
        for package in PACKAGES:
            (folder,) = importlib.util.find_spec(
                package
            ).submodule_search_locations
            missing = [
                os.path.relpath(source, folder)
                for source in pathlib.Path(folder).rglob("*.py")
                if not os.path.exists(
                    importlib.util.cache_from_source(str(source))
                )
            ]
            self.assertEqual(missing, [], package)
