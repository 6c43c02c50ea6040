"""The programs give the same results with and without the package."""

import pathlib

import explained
import jax
import numpy as np
import pytest

import xla_ffi_accelerate


@pytest.mark.parametrize("name", explained.PROGRAMS)
def test_same_results(name):
    module = explained.PROGRAMS[name]
    operands = module.arguments()
    results = []
    for setting in (xla_ffi_accelerate.disabled, xla_ffi_accelerate.enabled):
        with setting():
            results.append(jax.jit(module.program)(*operands))
    tolerance = getattr(module, "TOLERANCE", 0)
    for own, kit in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(kit, own, tolerance, tolerance)


def test_the_page_of_what_explain_says_is_current():
    """It also says which handlers the programs call."""
    file = pathlib.Path("accelerate/docs/explained.md")
    assert explained.page() == file.read_text()
