"""The extension module's handler, registered and called by JAX."""

import jax
import numpy as np
import pytest
import relu_nanobind


@pytest.fixture(scope="module", autouse=True)
def registered():
    for target, handler in relu_nanobind.registrations().items():
        jax.ffi.register_ffi_target(target, handler, platform="cpu")


def relu(x):
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("nanobind_example.relu", out)(x)


def test_the_handler_runs():
    x = np.float32([[-1, 2, 0.5], [3, -4, -0.25]])
    lowered = jax.jit(relu).lower(x)
    assert "@nanobind_example.relu(" in lowered.as_text()
    np.testing.assert_array_equal(lowered.compile()(x), np.maximum(x, 0))


def test_its_errors_are_exceptions():
    with pytest.raises(jax.errors.JaxRuntimeError, match="relu.*operand x"):
        relu(np.ones(3, bool))
