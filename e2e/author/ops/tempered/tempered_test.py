"""tempered: what every operation must do, and values."""

import unittest

import jax
import numpy as np
from tempered import tempered

from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)
DTYPES = ("float16", "bfloat16", "float32", "float64")


class OperationTest(unittest.TestCase):
    def test_contract(self):
        print(check_op(tempered, [Case(f"{t}[3,5]", beta=1.5) for t in DTYPES]))

    def test_values(self):
        x = np.linspace(-9, 9, 1001)
        got = tempered(x, beta=1.5)
        np.testing.assert_allclose(got, x / (1 + np.exp(-1.5 * x)), 1e-14)


if __name__ == "__main__":
    unittest.main()
