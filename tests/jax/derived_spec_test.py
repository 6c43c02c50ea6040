"""What an operation takes over from its handler's signature."""

import concurrent.futures
import dataclasses
import shutil
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import LIBRARY, said

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.library.handler_library import Handler
from xla_ffi_kit.ops.rms_norm import rms_norm_bwd_op
from xla_ffi_kit.testing import CHECKS, Case, check_op

CPU = xla_ffi_kit.ops.LIBRARIES[0]
RELU, NORM = "xla_ffi_kit.relu", "xla_ffi_kit.rms_norm"
X = np.float32([[1, -2, 3]])


def norm(x, weight=None, residual=None, *, eps=1e-6):
    h = x if residual is None else x + residual
    y = h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + eps)
    y = y if weight is None else y * weight
    return y if residual is None else (y, h)


def test_name_reference_and_library_are_a_whole_spec():
    relu = FfiOp(RELU, jax.nn.relu, libraries=CPU)
    assert relu.spec.kernel_axes == (0,)
    names = {"values", "vmap", "handler", "grad", "memory of results"}
    check_op(relu, [Case("float32[2,3]")], skip=set(CHECKS) - names)


def test_optional_and_shared_operands_attributes_and_names():
    op = FfiOp(NORM, norm, libraries=CPU, aliases={"x": "y", "residual": "sum"})
    assert op.spec.shared == (1,) and op.spec.kernel_axes == (1, 1, 1)
    assert op.spec.attributes == {"eps": np.float64}
    assert op.spec.input_output_aliases == {0: 0, 2: 1}
    alone = op.given(X, None, None).spec
    assert alone.input_output_aliases == {0: 0}
    assert alone.result_names == ("y", "scale")
    w = np.float32([1, 2, 3])
    for operands in ((X,), (X, w), (X, w, X)):
        text = jax.jit(op).lower(*operands).as_text()
        assert f"@{NORM}(" in text and "output_operand_alias" in text
        got, want = (jax.tree.leaves(f(*operands)) for f in (op, norm))
        np.testing.assert_allclose(got[0], want[0], 1e-6)
    got = jax.vmap(op)(X[None], w[None])
    np.testing.assert_allclose(got, norm(X, w)[None], 1e-6)


def test_a_dtype_to_add_up_in():
    half = jnp.ones((2, 3), jnp.bfloat16)
    scale = jnp.ones(2, jnp.float32)
    assert rms_norm_bwd_op(half, half, scale).dtype == jnp.bfloat16
    with pytest.raises(TypeError, match="float32 to add up operand x, got bfl"):
        rms_norm_bwd_op(half, half, half[:, 0])


def test_a_declared_type_of_an_attribute_is_compared():
    """signature_test has those that follow from the signature."""
    op = FfiOp(
        NORM, norm, kernel_axes=1, libraries=CPU, attributes={"eps": np.float32}
    )
    assert op.spec.attributes == {"eps": np.float32}


def test_dtypes_of_repeated_operands(monkeypatch):
    """Each of them has its own."""
    read = Handler.signature

    def repeated(handler):
        signature = read(handler)
        (x,) = signature.operands
        operand = dataclasses.replace(x, is_repeated=True)
        return dataclasses.replace(signature, operands=(operand,))

    monkeypatch.setattr(Handler, "signature", repeated)
    op = FfiOp(RELU, lambda *xs: xs[0], libraries=CPU)
    x = jnp.ones(3)
    op(x, x.astype(np.int8), implementation="reference")
    for wrong in (0, 1):
        operands = [x, x, x]
        operands[wrong] = x.astype(np.uint8)
        with pytest.raises(TypeError, match=rf"xs\[{wrong}\]: .* got uint8"):
            op(*operands, implementation="reference")


def test_a_result_that_only_the_library_names(tmp_path):
    def define(target, library):
        return FfiOp(
            *(target, lambda x: x),
            kernel_axes=0,
            libraries=library,
            aliases={"x": "y"},
        )

    asks = (
        "{}: {}: aliases: expected the index of a result, as no signature "
        "tells: {}, got 'y'"
    )
    assert said(define, "test.double", LIBRARY) == asks.format(
        *("TypeError", "test.double"),
        "the handler test.double of test_handlers.so states none",
    )
    path = tmp_path / "later.so"
    op = define(RELU, path)
    assert said(op, X) == asks.format(
        *("HandlerLibraryError", RELU, f"{path} does not exist")
    )
    shutil.copy(CPU.path, path)
    np.testing.assert_array_equal(op(X, implementation="reference"), X)


def test_threads_that_need_a_later_library_at_once(tmp_path):
    path, count, threads = tmp_path / "later.so", 0, 16
    op = FfiOp(NORM, norm, kernel_axes=1, libraries=path)
    shutil.copy(CPU.path, path)
    declare = op._declare

    def slowly():
        nonlocal count
        count += 1
        time.sleep(0.05)
        return declare()

    op._declare = slowly
    barrier = threading.Barrier(threads)

    def call(_):
        barrier.wait()
        return np.asarray(op(X, implementation="reference"))

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for got in pool.map(call, range(threads)):
            np.testing.assert_allclose(got, norm(X), 1e-6)
    assert count == 1


def test_a_library_that_is_built_later(tmp_path):
    path = tmp_path / "later.so"
    op = FfiOp(NORM, norm, kernel_axes=1, libraries=path)
    for call in (op, jax.jit(op)):
        assert said(call, X) == (
            f"HandlerLibraryError: {NORM}: attributes: expected the types of "
            f"eps, as no signature tells: {path} does not exist, got none"
        )
    shutil.copy(CPU.path, path)
    # (Another library has registered this target here.)
    got = op(X, implementation="reference")
    np.testing.assert_allclose(got, norm(X), 1e-6)
    with pytest.raises(TypeError, match="expected dtype .* got int8"):
        op(np.zeros(3, np.int8))
