"""The CUDA handlers against the CPU handlers and the references.

Part of //tests:gpu_bundle. XLA_FFI_KIT_TEST_PLATFORM=cpu runs it without a GPU,
which tests these tests and nothing else.
"""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.ops.modular_add import modular_add_op
from xla_ffi_kit.ops.relu import relu_op
from xla_ffi_kit.ops.rms_norm import rms_norm_op
from xla_ffi_kit.testing import Case, check_op

jax.config.update("jax_enable_x64", True)

PLATFORM = os.environ.get("XLA_FFI_KIT_TEST_PLATFORM", "cuda")
DEVICE, CPU = jax.devices(PLATFORM)[0], jax.devices("cpu")[0]

# dtype -> the distance allowed, in relation to the largest of the result.
FLOATS = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 5e-7,
    "float64": 1e-15,
    "complex64": 5e-7,
    "complex128": 1e-15,
}
# One row in a thread, in a warp, in a block's registers, in shared memory, and
# too long for that; with and without whole packs of 16 bytes.
SHAPES = [(8, 4), (1000, 63), (300, 1024), (5, 8192), (5, 8200), (3, 40001)]
SHAPES += [(2, 300000), (1, 1 << 22)]


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
    assert np.abs(got - want).max(initial=0) <= tolerance * largest


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rms_norm_values(shape, dtype):
    x = random(shape, jnp.dtype(dtype))
    got, want = (run(xla_ffi_kit.rms_norm, d, x) for d in (DEVICE, CPU))
    assert_close(got, want, FLOATS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_rms_norm_backward_values(shape, dtype):
    x, ct = (random(shape, jnp.dtype(dtype), seed) for seed in (1, 2))

    def backward(x, ct):
        return jax.vjp(xla_ffi_kit.rms_norm, x)[1](ct)[0]

    got, want = (run(backward, d, x, ct) for d in (DEVICE, CPU))
    assert_close(got, want, 2 * FLOATS[dtype])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64", "int8"])
@pytest.mark.parametrize("m", [1, 128, 1000, 100003])
@pytest.mark.parametrize("n", [1, 3, 128])
def test_modular_add_values(n, m, dtype):
    b, c = (random((2, size), jnp.dtype(dtype)) for size in (n, m))
    got, want = (run(xla_ffi_kit.modular_add, d, b, c) for d in (DEVICE, CPU))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16"])
@pytest.mark.parametrize("shape", [(), (37,), (3, 0), (1000, 1001)], ids=str)
def test_relu_values(shape, dtype):
    x = random(shape, jnp.dtype(dtype))
    if x.dtype.kind == "f" and x.size > 2:
        x.ravel()[:3] = [np.nan, -np.inf, -0.0]
    got, want = (run(xla_ffi_kit.relu, d, x) for d in (DEVICE, CPU))
    np.testing.assert_array_equal(got, want)


def test_the_handlers_are_what_runs():
    text = jax.jit(xla_ffi_kit.rms_norm).lower(jnp.ones((4, 8))).compile()
    assert "xla_ffi_kit.rms_norm" in text.as_text()


@pytest.mark.skipif(PLATFORM == "cpu", reason="2 GB of elements, for a GPU")
def test_more_than_2_to_the_31_elements():
    x = jnp.full((1 << 31) + 7, -3, jnp.int8).at[-1].set(5)
    y = jax.jit(xla_ffi_kit.relu, donate_argnums=0)(x)
    assert int(y[-1]) == 5 and int(y[-2]) == 0 and int(y[0]) == 0


@pytest.mark.parametrize(
    ("op", "case"),
    [
        (rms_norm_op, Case("float32[3,17]", eps=1e-6)),
        (relu_op, Case("float32[3,17]")),
        (modular_add_op, Case("float32[3,4]", "float32[3,17]")),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_transformation(op, case):
    check_op(op, [case])
