"""What the tests of the bundle share: devices, operands, comparisons."""

import os

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)

PLATFORM = os.environ.get("XLA_FFI_KIT_TEST_PLATFORM", "cuda")
DEVICE, CPU = jax.devices(PLATFORM)[0], jax.devices("cpu")[0]

# dtype -> the distance allowed, in relation to the largest of the result.
FLOATS = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 5e-7,
    "float64": 1e-15,
}
# One row in a thread, in a warp, in a block's registers, in shared memory, and
# too long for that; with and without whole packs of 16 bytes.
SHAPES = [(8, 4), (1000, 63), (300, 1024), (300, 4096), (5, 8192), (5, 8200)]
SHAPES += [(3, 40001)]
SHAPES += [(2, 300000), (1, 1 << 22)]


def shape_id(shape):
    """A shape in a test's name: 8x4."""
    return "x".join(map(str, shape))


def random(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.standard_normal(shape)
    return np.array(jnp.asarray(x, dtype))  # a copy: it can be written to


def run(function, device, *operands):
    """The results on one device, compiled, as NumPy arrays."""
    operands = [jax.device_put(x, device) for x in operands]
    return jax.tree.map(np.asarray, jax.jit(function)(*operands))


def assert_close(got, want, tolerance):
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    got, want = got.astype(wide), want.astype(wide)
    largest = np.abs(want).max(initial=1e-30)
    distance = np.abs(got - want).max(initial=0) / largest
    assert distance <= tolerance, f"{distance} of the largest"
