"""The CUDA handlers against the CPU handlers and the references.

Part of //tests:gpu_bundle. XLA_FFI_KIT_TEST_PLATFORM=cpu runs it without a GPU,
which tests these tests and nothing else.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_data import (
    CPU,
    DEVICE,
    FLOATS,
    PLATFORM,
    SHAPES,
    assert_close,
    random,
    run,
    shape_id,
)

import xla_ffi_kit
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import rms_norm_bwd_op, rms_norm_op
from xla_ffi_kit.testing import Case, check_op


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_rms_norm_values(shape, dtype):
    x = random(shape, jnp.dtype(dtype))
    got, want = (run(xla_ffi_kit.rms_norm, d, x) for d in (DEVICE, CPU))
    assert_close(got, want, FLOATS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
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
        (
            rms_norm_bwd_op,
            Case("float32[3,17]", "float32[3,17]", eps=1e-6),
        ),
        (relu, Case("float32[3,17]")),
        (modular_add, Case("float32[3,4]", "float32[3,17]")),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_transformation(op, case):
    check_op(op, [case])
