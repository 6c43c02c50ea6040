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
from xla_ffi_kit import Advanced, FfiOp
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
    for given in ((X,), (X, w), (X, w, X)):
        text = jax.jit(op).lower(*given).as_text()
        assert f"@{NORM}(" in text and "output_operand_alias" in text
        got, want = (jax.tree.leaves(f(*given)) for f in (op, norm))
        np.testing.assert_allclose(got[0], want[0], 1e-6)
    got = jax.vmap(op)(X[None], w[None])
    np.testing.assert_allclose(got, norm(X, w)[None], 1e-6)
    with pytest.raises(TypeError, match="weight: expected dtype float32 as op"):
        op(X, np.float16(w))


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


TAKE = "; take one of them out of aliases"
NAMES = {
    "aliases: expected 'y', got 'yy'": {"aliases": {"x": "yy"}},
    "aliases: expected a name of the results y, sum, scale, got 'z'": {
        "aliases": {"x": "z"}
    },
    "aliases: expected one operand for the buffer of result 1 (sum), got x and "
    f"residual{TAKE}": {"aliases": {"x": "sum", "residual": 1}},
    "output_layouts: expected one order for result 0 (y), got two, for 'y' and "
    "0": {"advanced": Advanced(output_layouts={"y": (0,), 0: (0,)})},
    "linear: expected 'weight', got 'weihgt'": {"linear": "weihgt"},
    "input_layouts: expected 'residual', got 'resid'": {
        "advanced": Advanced(input_layouts={"resid": (0,)})
    },
}


@pytest.mark.parametrize("message", NAMES)
def test_results_and_operands_by_name(message):
    given = {"kernel_axes": 1, "libraries": CPU, **NAMES[message]}
    assert said(FfiOp, NORM, norm, **given) == f"ValueError: {NORM}: {message}"


def test_without_a_residual_there_is_no_sum():
    """And 1 means the scale."""
    op = FfiOp(NORM, norm, libraries=CPU, aliases={"x": 1, "weight": "scale"})
    with pytest.raises(ValueError, match=r"result 1 .scale., got x and weight"):
        op(X, X[0])


ASKS = (
    "axes, kernel_axes: expected one of them, such as '(n)->(n)' or 1, as no "
    "signature tells: {}, got none"
)
TYPES = "attributes: expected the types of axis, eps, as no signature tells: {}"
OF_DOUBLE = "the handler test.double of test_handlers.so states none"


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("test.double", {"libraries": LIBRARY}, ASKS.format(OF_DOUBLE)),
        (
            "test.double",
            {"libraries": LIBRARY, "kernel_axes": 1},
            f"{TYPES.format(OF_DOUBLE)}, got none",
        ),
        (
            "test.typo",
            {"libraries": LIBRARY, "kernel_axes": 1},
            TYPES.format("no library has a handler 'test.typo'; they offer: "),
        ),
        (
            "test.registered",
            {"attributes": {"axis": np.int64, "eps": np.float64}},
            ASKS.format("no library with its handler is given"),
        ),
    ],
)
def test_what_no_signature_tells_is_asked_for(target, options, message):
    def reference(x, weight, *, axis, eps):
        return x

    if target == "test.typo":
        message += f"{', '.join(sorted(LIBRARY.targets))}, got none"
    got = said(FfiOp, target, reference, **options)
    assert got == f"TypeError: {target}: {message}"


def test_a_default_none_that_the_handler_does_not_take():
    options = {"kernel_axes": 1, "libraries": CPU}
    assert said(FfiOp, f"{NORM}_bwd", lambda x, ct=None: x, **options) == (
        f"ValueError: {NORM}_bwd: operand ct: expected no default None, as the "
        f"handler {NORM}_bwd of xla_ffi_kit_cpu.so takes them, got one"
    )
    with pytest.raises(ValueError, match="expected 1 to 3 operands, .x, weig"):
        FfiOp(NORM, lambda *xs: xs[0], **options)


def test_dtypes_of_repeated_operands(monkeypatch):
    """Each of them has its own."""
    read = Handler.signature

    def signature(handler):
        found = read(handler)
        (x,) = found.operands
        operand = dataclasses.replace(x, is_repeated=True)
        return dataclasses.replace(found, operands=(operand,))

    monkeypatch.setattr(Handler, "signature", signature)
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
        *("TypeError", "test.double", OF_DOUBLE)
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
