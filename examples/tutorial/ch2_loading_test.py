"""Five ways from the library to a call: all reach the same handler."""

import pathlib

import jax
import numpy as np
import pytest
from rms_norm import HANDLERS, PATH, reference, rms_norm, rms_norm_op

import xla_ffi_kit

HERE = pathlib.Path(__file__).parent
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def call(target):
    out = jax.ShapeDtypeStruct(X.shape, X.dtype)
    return jax.ffi.ffi_call(target, out)(X, eps=np.float32(1e-5))


@pytest.mark.parametrize("norm", [rms_norm, rms_norm_op])
def test_by_ctypes_and_as_an_ffi_op(norm):
    np.testing.assert_allclose(norm(X), reference(X), 1e-6)
    assert "@rms_norm(" in jax.jit(norm).lower(X).as_text()


@pytest.mark.parametrize("binder", ["pybind11", "nanobind"])
def test_an_extension_module(binder):
    module = pytest.importorskip(f"rms_norm_{binder}")
    for target, handler in module.registrations().items():
        name = f"{binder}.{target}"
        jax.ffi.register_ffi_target(name, handler, platform="cpu")
    assert set(module.registrations()) == set(HANDLERS)
    np.testing.assert_array_equal(call(f"{binder}.rms_norm"), rms_norm(X))


def test_a_handler_library():
    library = xla_ffi_kit.HandlerLibrary(PATH)
    xla_ffi_kit.register(library)
    assert set(library.targets) == set(HANDLERS)
    np.testing.assert_array_equal(call("rms_norm"), rms_norm(X))


TABLE = """
#include "xla_ffi/core/define_table.h"
XLA_FFI_KIT_DEFINE_TABLE("rms_norm", XLA_FFI_KIT_HANDLER("rms_norm", RmsNorm));
"""


def compiled(folder, source):
    """A shared library by the compiler alone, without a table of the kit's."""
    from xla_ffi_kit.compile import compiler

    file = folder / "own.cc"
    file.write_text(source)
    library = folder / "own.so"
    found = compiler.find()
    exports, flags = ["*"], ["-O0"]
    compiler.compile_library("own", found, [file], exports, library, flags)
    return library


def test_a_library_without_a_table(tmp_path):
    source = (HERE / "rms_norm.cc").read_text()
    without = xla_ffi_kit.HandlerLibrary(compiled(tmp_path, source))
    says = "no handler library.*XLA_FFI_KIT_DEFINE_TABLE"
    with pytest.raises(xla_ffi_kit.errors.HandlerLibraryError, match=says):
        without.handler("rms_norm")
    folder = tmp_path / "table"
    folder.mkdir()
    library = xla_ffi_kit.HandlerLibrary(compiled(folder, source + TABLE))
    assert library.targets == ["rms_norm"]


def test_what_is_no_handler_does_not_compile(tmp_path):
    source = "".join(
        (HERE / name).read_text() for name in ("rms_norm.cc", "encapsulate.h")
    )
    line = "void* Address() { return Encapsulate(&%s); }\n"
    compiled(tmp_path, source + line % "RmsNorm")
    with pytest.raises(
        xla_ffi_kit.errors.BuildError, match="a handler is XLA_FFI_"
    ):
        compiled(tmp_path, source + line % "RmsNormImpl")
