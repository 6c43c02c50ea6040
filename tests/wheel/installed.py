"""Uses an installed wheel; the argument is the folder it is installed below."""

import importlib.metadata
import sys

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit
from xla_ffi_kit.ops import relu
from xla_ffi_kit.testing import Case, check_op

assert xla_ffi_kit.__file__.startswith(sys.argv[1]), xla_ffi_kit.__file__
assert importlib.metadata.version("xla_ffi_kit")
library = xla_ffi_kit.ops.LIBRARIES[0]
assert library.path.startswith(sys.argv[1]), library.path
assert library.api_version == (0, 2)

x = np.random.default_rng(0).normal(size=(64, 1000)).astype(np.float32)
lowered = jax.jit(xla_ffi_kit.rms_norm).lower(x)
assert "xla_ffi_kit.rms_norm" in lowered.as_text()
expected = x / np.sqrt(np.mean(np.square(x), -1, keepdims=True) + 1e-6)
np.testing.assert_allclose(lowered.compile()(x), expected, rtol=1e-5)
np.testing.assert_array_equal(xla_ffi_kit.relu(x), np.maximum(x, 0))
np.testing.assert_array_equal(
    xla_ffi_kit.modular_add(jnp.arange(3), jnp.zeros(7, int)),
    np.arange(7) % 3,
)

# What a handler refuses is JAX's error, with the handler's sentence.
two_results = jax.jit(lambda x: jax.ffi.ffi_call("xla_ffi_kit.relu", [x, x])(x))
try:
    jax.block_until_ready(two_results(x))
    raise SystemExit("a wrong call was not refused")
except jax.errors.JaxRuntimeError as error:
    assert "xla_ffi_kit.relu: results: expected y, got 2" in str(error), error

check_op(relu, [Case("float32[2,3]")])
print("all as expected")
