"""The kit runs with the codebase's own JAX, from the codebase's own @pypi."""

import pathlib

import jax
import numpy as np

import xla_ffi_kit

LOCKED = pathlib.Path(__file__).with_name("requirements_lock.txt").read_text()
assert f"\njax=={jax.__version__} " in LOCKED, jax.__version__

x = np.array([[3, 4]], np.float32)
lowered = jax.jit(xla_ffi_kit.rms_norm).lower(x)
assert "xla_ffi_kit.rms_norm" in lowered.as_text()
y = lowered.compile()(x)
np.testing.assert_allclose(y, x / np.sqrt(12.5), rtol=1e-6)
