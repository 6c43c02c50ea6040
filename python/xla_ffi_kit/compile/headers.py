"""The C++ headers that the package carries."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib


def include_dir() -> str:
    """Returns the folder of the headers for handlers.

    It contains XLA's FFI headers of the oldest version that the kit supports
    ("xla/ffi/api/ffi.h"), the kit's helpers ("xla_ffi/core/handler.h",
    "xla_ffi/core/call.h"), and the headers of `inline`
    ("xla_ffi/strings/kit.h"). A library of handlers that include call.h also
    compiles "xla_ffi/core/call.cc".
    """
    # Not resolved: under Bazel the package is links in the runfiles.
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(os.path.dirname(here), "include")


def sources() -> list[pathlib.Path]:
    """The C++ sources that handlers of "xla_ffi/core/call.h" need."""
    return sorted(pathlib.Path(include_dir(), "xla_ffi", "core").glob("*.cc"))


@functools.cache
def of_strings() -> list[str]:
    """Paths of the headers that strings include, directly or not."""
    kit = pathlib.Path(include_dir(), "xla_ffi")
    return [
        os.path.join(include_dir(), "xla/ffi/api/c_api.h"),
        *(str(kit / "core" / f"{name}.h") for name in _CORE),
        *map(str, sorted(kit.glob("strings/**/*.h"))),
    ]


@functools.cache
def digest() -> bytes:
    """A hash of the headers that strings include."""
    hashed = hashlib.sha256()
    for path in of_strings():
        with open(path, "rb") as file:
            hashed.update(hashlib.sha256(file.read()).digest())
    return hashed.digest()


@functools.cache
def of_cuda() -> dict[str, str]:
    """The headers that NVRTC compiles: name -> content."""
    found = {}
    for path in of_strings():
        name = os.path.relpath(path, include_dir())
        found[name] = pathlib.Path(path).read_text(encoding="utf-8")
    every = f'#include "{_CUDA_STANDARD}"\n'
    return found | dict.fromkeys(_CUDA_STANDARD_NAMES.split(), every)


# What strings include of core, on CPUs and on CUDA.
_CORE = """define_table half handler_signature handler_table
    host_device""".split()
_CUDA_STANDARD = "xla_ffi/strings/cuda/standard.h"
# Each of these names includes the whole of the kit's standard library.
_CUDA_STANDARD_NAMES = """algorithm array assert.h cassert cfloat climits cmath
    cstddef cstdint cstdio cstdlib cstring float.h initializer_list limits
    limits.h math.h numeric stddef.h stdint.h stdio.h stdlib.h string.h
    string_view type_traits utility"""
