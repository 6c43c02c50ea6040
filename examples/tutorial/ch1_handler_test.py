"""One C++ file, built in three ways; what the compiler and XLA check."""

import ctypes
import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys

import jax
import numpy as np
import pytest

import xla_ffi_kit

HERE = pathlib.Path(__file__).parent
SYMBOLS = ("RmsNorm", "RmsNormFwd", "RmsNormBwd")
EPS = np.float32(1e-5)
BUILD = r"""
python -m xla_ffi_kit build rms_norm.cc -o librms_norm.so \
  --handler rms_norm=RmsNorm --handler rms_norm_fwd=RmsNormFwd \
  --handler rms_norm_bwd=RmsNormBwd
"""
CMAKE = """
cmake -B build
cmake --build build
"""


def folder_of_cmake():
    """PyPI's, or the machine's; or None."""
    package = importlib.util.find_spec("cmake")
    if package and package.origin:
        return os.path.join(os.path.dirname(package.origin), "data/bin")
    found = shutil.which("cmake")
    return found and os.path.dirname(found)


def run(commands, folder):
    """Runs them beside copies of the sources, with this Python as `python`."""
    for name in ("rms_norm.cc", "CMakeLists.txt"):
        shutil.copy(HERE / name, folder)
    python = folder / "bin/python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    path = [str(python.parent), folder_of_cmake(), os.environ["PATH"]]
    environ = os.environ | {"PATH": os.pathsep.join(filter(None, path))}
    if shutil.which("ninja"):
        environ["CMAKE_GENERATOR"] = "Ninja"
    command = ["bash", "-euc", commands]
    subprocess.run(command, cwd=folder, env=environ, check=True)


def by_bazel(folder):
    path = HERE / "librms_norm.so"
    return path if path.exists() else pytest.skip("this is not Bazel")


def by_command(folder):
    run(BUILD, folder)
    return folder / "librms_norm.so"


def by_cmake(folder):
    if not folder_of_cmake():
        pytest.skip("pip install cmake")
    run(CMAKE, folder)
    return folder / "build/librms_norm.so"


@pytest.fixture(
    scope="module",
    params=[by_bazel, by_command, by_cmake],
)
def call(request, tmp_path_factory):
    """`jax.ffi.ffi_call` of a handler of the library, by its symbol."""
    build = request.param
    library = ctypes.CDLL(build(tmp_path_factory.mktemp("built")))
    for symbol in SYMBOLS:
        jax.ffi.register_ffi_target(
            f"{build.__name__}.{symbol}",
            jax.ffi.pycapsule(getattr(library, symbol)),
            platform="cpu",
        )
    return lambda symbol, out: jax.ffi.ffi_call(
        f"{build.__name__}.{symbol}", out
    )


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, np.float32)


def reference(x):
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPS)


def test_forward_and_backward(call):
    x, ct = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("f4")
    y, pullback = jax.vjp(reference, x)
    np.testing.assert_allclose(call("RmsNorm", f32(3, 4))(x, eps=EPS), y, 1e-6)
    fwd, scale = call("RmsNormFwd", (f32(3, 4), f32(3)))(x, eps=EPS)
    np.testing.assert_array_equal(fwd, x * np.asarray(scale)[:, None])
    dx = call("RmsNormBwd", f32(3, 4))(scale, x, ct)
    np.testing.assert_allclose(dx, pullback(ct)[0], 1e-5, 1e-6)


X = np.ones((2, 4), "f4")


@pytest.mark.parametrize(
    ("operands", "eps", "says"),
    [
        ([np.int32(X)], EPS, "Wrong buffer dtype: expected F32 but got S32"),
        ([X], np.float64(0.5), "Wrong scalar data type"),
        ([X, X], EPS, "Wrong number of arguments: expected 1 but got 2"),
    ],
)
def test_what_does_not_fit_the_binding_is_an_error(call, operands, eps, says):
    with pytest.raises(jax.errors.JaxRuntimeError, match=says):
        jax.block_until_ready(call("RmsNorm", f32(2, 4))(*operands, eps=eps))


# What the binding of RmsNorm may say instead of its attribute.
ATTRIBUTE = '.Attr<float>("eps")'
WRONG = ["", '.Attr<std::string_view>("eps")', ATTRIBUTE + ATTRIBUTE]


@pytest.mark.parametrize("instead", WRONG)
def test_a_binding_that_does_not_fit_its_function_does_not_compile(
    tmp_path, instead
):
    source, file = (HERE / "rms_norm.cc").read_text(), tmp_path / "bad.cc"
    assert ATTRIBUTE in source
    file.write_text(source.replace(ATTRIBUTE, instead, 1))
    says = "FFI binding signature is not compatible with a function type"
    with pytest.raises(xla_ffi_kit.errors.BuildError, match=says):
        xla_ffi_kit.build_library(
            [file], {"bad": "RmsNorm"}, tmp_path / "bad.so", flags=["-O0"]
        )
