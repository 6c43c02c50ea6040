"""The package finds its CUDA library, and lowers to its handlers; no GPU.

What lowering needs of the library - loading it, reading its table, the metadata
of its handlers - needs neither a GPU nor a driver.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit

(_, LIBRARY) = xla_ffi_kit.ops.LIBRARIES
X = jnp.ones((4, 8), jnp.float32)
W = X[0]


def of_rows(x):
    return xla_ffi_kit.rms_norm(x).sum()


def of_weight(x, w):
    return xla_ffi_kit.rms_norm(x, w).sum()


def of_residual(x, w):
    y, h = xla_ffi_kit.rms_norm(x, w, residual=x)
    return (y * h).sum()


# A function, its operands, and the ends of the targets' names.
CASES = [
    (xla_ffi_kit.relu, (X,), ["relu"]),
    (xla_ffi_kit.modular_add, (X, X), ["modular_add"]),
    (of_rows, (X,), ["rms_norm"]),
    (jax.grad(of_rows), (X,), ["rms_norm_bwd"]),
    (of_weight, (X, W), ["rms_norm"]),
    (of_residual, (X, W), ["rms_norm"]),
    (jax.grad(of_weight, (0, 1)), (X, W), ["rms_norm", "rms_norm_weight_bwd"]),
    (
        jax.grad(of_residual, (0, 1)),
        (X, W),
        ["rms_norm", "rms_norm_weight_bwd"],
    ),
    (jax.vmap(of_weight), (X, X), ["rms_norm"]),
]


def test_handlers_answer_for_themselves():
    assert "xla_ffi_kit.rms_norm" in LIBRARY.targets
    for handler in LIBRARY.handlers.values():
        assert handler.platform == "cuda"
        assert handler.metadata().api_version == (0, 2)


@pytest.mark.parametrize(("function", "operands", "targets"), CASES)
def test_operations_lower_to_their_handlers(function, operands, targets):
    traced = jax.jit(function).trace(*operands)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    for target in targets:
        assert f"@xla_ffi_kit.{target}(" in text


def test_the_cpu_is_unaffected():
    assert xla_ffi_kit.relu(-X).sum() == 0
    y = jax.jit(xla_ffi_kit.rms_norm)(X)
    np.testing.assert_allclose(y, 1, atol=1e-5)
