"""The kernels of //benchmarks:strings, which differentiate themselves.

The programs of `check_op` that depend on a kernel; the others are those of any
operation from a string.
"""

import os
import tempfile

os.environ["XLA_FFI_KIT_CACHE"] = tempfile.mkdtemp(
    dir=os.environ.get("TEST_TMPDIR")
)

import jax
import numpy as np
import pytest

from strings_kernels import kernels
from xla_ffi_kit.testing import CHECKS, Case, check_op

_CHECKS = {"host function", "values", "batch axes", "jvp", "grad"}
# Compared with a function of NumPy arrays: the JAX form, which is no reference.
_WITHOUT_REFERENCE = (
    "isotonic regression",
    "shortest path",
    "queue with two servers",
)
_SIZES = {"shortest path": 18, "soft-DTW": 3}
# In bf16, the JAX forms round each step, and the kernels do not.
_DTYPES = "f32 f64"


@pytest.fixture(autouse=True)
def _doubles():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("name", kernels())
def test_contract(name):
    kernel = kernels()[name]
    has_reference = name not in _WITHOUT_REFERENCE
    op = kernel.operation(
        dtypes=_DTYPES, flags=["-O1"], has_reference=has_reference
    )
    host = None if has_reference else _on_host(kernel)
    random = np.random.default_rng(3)
    made = kernel.operands(random, (2,), _SIZES.get(name, 5))
    cases = [Case(*(x.astype(dtype) for x in made)) for dtype in ("f4", "f8")]
    print(check_op(op, cases, host=host, skip=set(CHECKS) - _CHECKS))


def _on_host(kernel):
    def host(*operands):
        return jax.tree.map(np.asarray, kernel.jax(*operands))

    return host
