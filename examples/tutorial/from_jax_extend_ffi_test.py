"""Older spellings: that they are gone, and that today's work."""

import ctypes
import importlib
import warnings

import jax
import numpy as np
import pytest
from rms_norm import rms_norm

import xla_ffi_kit

X = np.arange(12, dtype=np.float32).reshape(3, 4)

# The rows of docs/tutorial/from_jax_extend_ffi.md: gone on every release that
# the kit is tested with, and what is there.
PYTHON = [
    ("jax.extend.ffi", "jax.ffi.ffi_call"),
    ("jax.core.Primitive", "jax.extend.core.Primitive"),
    ("jax.interpreters.xla.translations", "jax.interpreters.mlir.lower_fun"),
    (
        "jax.interpreters.xla.backend_specific_translations",
        "jax.interpreters.mlir.register_lowering",
    ),
    (
        "jax.interpreters.xla.register_translation",
        "jax.interpreters.mlir.register_lowering",
    ),
    ("jaxlib.xla_client.ops", "jax.extend.mlir.dialects.stablehlo"),
    ("jaxlib.hlo_helpers", "jax.ffi.ffi_lowering"),
    ("jax.interpreters.mlir.custom_call", "jax.ffi.ffi_lowering"),
    ("jax.xla_computation", "jax.jit"),
    ("jax.experimental.maps", "jax.shard_map"),
    ("jax.experimental.host_callback", "jax.pure_callback"),
]
# Deprecated or private, but there.
STILL = [
    ("jax.experimental.shard_map.shard_map", "jax.shard_map"),
    (
        "jaxlib.xla_client.register_custom_call_target",
        "jax.ffi.register_ffi_target",
    ),
    ("jax.ffi.register_ffi_type_id", "jax.ffi.register_ffi_type"),
]
CPP = [
    ("sizeof(ffi::BufferBase)", "sizeof(ffi::AnyBuffer)"),
    ("x.data", "x.untyped_data()"),
    ("x.dtype", "x.element_type()"),
    ("x.dimensions[0]", "x.dimensions()[0]"),
]


def exists(path):
    module, _, name = path.rpartition(".")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            found = importlib.import_module(module)
        except ImportError:
            return False
        if hasattr(found, name):
            return True
        try:
            importlib.import_module(path)
        except ImportError:
            return False
        return True


@pytest.mark.parametrize(("older", "today"), PYTHON)
def test_gone(older, today):
    assert not exists(older)
    assert exists(today)


@pytest.mark.parametrize(("older", "today"), STILL)
def test_still_there(older, today):
    assert exists(older)
    assert exists(today)


def compiles(folder, expression):
    file = folder / "try.cc"
    file.write_text(
        '#include "xla/ffi/api/ffi.h"\n'
        "namespace ffi = xla::ffi;\n"
        f"auto Try(ffi::AnyBuffer x) {{ return {expression}; }}\n"
        "XLA_FFI_DEFINE_HANDLER_SYMBOL(H, [] { return ffi::Error(); },"
        " ffi::Ffi::Bind());\n"
    )
    try:
        xla_ffi_kit.build_library(
            [file], {"h": "H"}, folder / "try.so", flags=["-O0"]
        )
    except xla_ffi_kit.errors.BuildError:
        return False
    return True


@pytest.mark.parametrize(("older", "today"), CPP)
def test_cpp(tmp_path, older, today):
    assert not compiles(tmp_path, older)
    assert compiles(tmp_path, today)


def test_calls():
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    # It returns a function.
    with pytest.raises(TypeError):
        jax.ffi.ffi_call("rms_norm", out, X, eps=np.float32(1e-5))
    with pytest.raises((TypeError, ValueError), match="vectorized"):
        jax.ffi.ffi_call("rms_norm", out, vectorized=True)
    # Was jax.xla_computation(f)(x).
    assert "@rms_norm(" in jax.jit(rms_norm).lower(X).as_text()


# --- Handlers without types --------------------------------------------------


@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))
def twice_four_floats(out, operands):
    source = (ctypes.c_float * 4).from_address(operands[0])
    target = (ctypes.c_float * 4).from_address(out)
    for i in range(4):
        target[i] = 2 * source[i]


def test_a_handler_without_types():
    jax.ffi.register_ffi_target(
        "older.twice",
        jax.ffi.pycapsule(
            ctypes.cast(twice_four_floats, ctypes.c_void_p).value
        ),
        platform="cpu",
        api_version=0,
    )
    twice = jax.ffi.ffi_call(
        "older.twice",
        jax.ShapeDtypeStruct((4,), np.float32),
        custom_call_api_version=1,
        legacy_backend_config="",
    )
    np.testing.assert_array_equal(twice(X[1]), 2 * X[1])
