"""Uses both wheels; the argument is the folder they are installed below."""

import importlib.metadata
import io
import sys
from contextlib import redirect_stdout

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_accelerate
from xla_ffi_kit import doctor

assert xla_ffi_accelerate.__file__.startswith(sys.argv[1])
(kit,) = (
    line
    for line in importlib.metadata.requires("xla_ffi_accelerate")
    if line.startswith("xla_ffi_kit")
)
assert kit == f"xla_ffi_kit=={importlib.metadata.version('xla_ffi_kit')}", kit
(library,) = xla_ffi_accelerate.LIBRARIES
assert library.path.startswith(sys.argv[1]), library.path
assert library.api_version == (0, 2)

# Threads of XLA's pool, and their condition variables, inside the library.
big = np.random.default_rng(1).normal(size=1 << 20).astype(np.float32)
xla_ffi_accelerate.enable()
assert "xla_ffi_accelerate.sort" in jax.jit(jnp.sort).lower(big).as_text()
np.testing.assert_array_equal(jnp.sort(big), np.sort(big))

with redirect_stdout(io.StringIO()) as said:
    assert doctor.main([]) == 0
assert "accelerate:\n" in said.getvalue(), said.getvalue()
assert "sort" in said.getvalue().partition("accelerate:\n")[2]
print("all as expected")
