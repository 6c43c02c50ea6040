"""A handler that says what it takes: it checks its calls, and the operation
follows from it."""

import pathlib

import jax
import numpy as np
import pytest
from rms_norm import reference

import xla_ffi_kit

HERE = pathlib.Path(__file__).parent
X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return xla_ffi_kit.build_library(
        [HERE / "rms_norm_checked.cc"],
        {"rms_norm_checked": "RmsNormChecked"},
        tmp_path_factory.mktemp("built") / "librms_norm_checked.so",
    )


def test_the_operation_follows_from_the_handler(library):
    rms_norm = xla_ffi_kit.FfiOp(
        "rms_norm_checked", reference, libraries=library
    )
    np.testing.assert_allclose(rms_norm(X), reference(X), 1e-6)
    np.testing.assert_allclose(jax.vmap(rms_norm)(X), reference(X), 1e-6)
    with pytest.raises(TypeError) as caught:
        rms_norm(X.astype(np.int32))
    assert str(caught.value) == (
        "rms_norm_checked: operand x: expected dtype float32, float64, got "
        "int32"
    )
    said = "rms_norm_checked: attribute eps: expected a finite value >= 0"
    with pytest.raises(ValueError) as caught:
        rms_norm(X, eps=-1.0)
    assert str(caught.value) == f"{said}, got -1"
    # The handler, called without the operation, says the same.
    call = jax.ffi.ffi_call("rms_norm_checked", jax.typeof(X))
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        call(X, eps=np.float64(-1))
    assert f"{said}, got -1" in str(caught.value)


def test_what_does_not_fit_is_an_error_where_it_is_defined(library):
    def reference(x, *, epsilon=1e-5):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + epsilon)

    with pytest.raises(ValueError) as caught:
        xla_ffi_kit.FfiOp("rms_norm_checked", reference, libraries=library)
    assert str(caught.value) == (
        "rms_norm_checked: attributes: expected {eps}, as the handler "
        "rms_norm_checked of librms_norm_checked.so takes them, got {epsilon}"
    )


def test_the_library_says_what_it_takes(library):
    assert str(library.signature("rms_norm_checked")) == (
        "rms_norm_checked(x: f32|f64[..., n; n of 1 or more], *, "
        "eps: f64 (0 or more)) -> y: like x"
    )
