"""Builds of small sources, in a cache of their own, and how many there were."""

import ctypes
import shutil

import pytest

from xla_ffi_kit.strings import operation
from xla_ffi_kit.strings.source import Place, Source


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache folder, and beside it a log of what the compiler was asked."""
    monkeypatch.setenv("XLA_FFI_KIT_CACHE", str(tmp_path / "cache"))
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *" -c "*) echo . >>{tmp_path}/log;; esac\n'
        f'exec {shutil.which("c++")} "$@" -O0\n'  # which is fastest
    )
    compiler.chmod(0o755)
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
