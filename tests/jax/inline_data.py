"""What tests of strings share: a cache of their own, builds, comparisons."""

import ctypes
import importlib.util
import os
import shutil
import tempfile

import common  # noqa: F401  four devices
import jax
import numpy as np
import pytest

from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.strings import operation
from xla_ffi_kit.strings.text.source import Place, Source

_folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
os.environ["XLA_FFI_KIT_CACHE"] = _folder.name


def error_of(decorate, error=BuildError):
    """What is said when a function `f(x)` is decorated."""
    with pytest.raises(error) as caught:

        @decorate
        def f(x):
            return x

    return str(caught.value)


@pytest.fixture
def no_compiler(monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def use_compiler(compiler, monkeypatch):
    """Has strings compiled by "g++", "clang++" or "zig", or skips the test."""
    if compiler == "zig":  # of PyPI, where there is no other
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("not installed: pip install xla_ffi_kit[inline]")
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", "")
    elif shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    else:
        monkeypatch.setenv("CXX", compiler)


def program(path, *lines):
    """Writes a script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return path


def close(got, want, tolerance=0.0):
    """Asserts results of the same types that differ by at most a tolerance."""
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        wide = np.result_type(g.dtype, np.float64)
        g, w = np.asarray(g, wide), np.asarray(w, wide)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance)


# --- Builds of small sources, and how many there were -------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder, and beside it a log of what the compiler was asked."""
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(tmp_path / "cache"))
    compiler = program(
        tmp_path / "compiler",
        f'case "$*" in *" -c "*) echo . >>{tmp_path}/log;; esac',
        f'exec {shutil.which("c++")} "$@" -O0',  # which is fastest
    )
    monkeypatch.setenv("CXX", str(compiler))
    return tmp_path


def compiles(folder):
    log = folder / "log"
    return len(log.read_text().split()) if log.exists() else 0


def source(code):
    code += "void f(kit::In<float> x, kit::Out<float> y) {}"
    return Source("f", code, "f", (), ("x",), (), Place("f.cc", 1))


def build(code="", *flags):
    return operation.build(source(code), flags)


# What a library says, whose source or flags define ANSWER.
ANSWER = (
    'extern "C" __attribute__((visibility("default"))) '
    "int XlaFfiKit_answer() { return ANSWER; }\n"
)


def answer(code="", *flags):
    _, library = build(code + ANSWER, *flags)
    return ctypes.CDLL(library).XlaFfiKit_answer()
