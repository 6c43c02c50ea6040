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
    ("xla_ffi/inline/kit.h"). A library of handlers that include call.h also
    compiles "xla_ffi/core/call.cc".
    """
    # Not resolved: under Bazel the package is links in the runfiles.
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(os.path.dirname(here), "include")


def sources() -> list[pathlib.Path]:
    """The C++ sources that handlers of "xla_ffi/core/call.h" need."""
    return sorted(pathlib.Path(include_dir(), "xla_ffi", "core").glob("*.cc"))


def of_inline() -> list[str]:
    """Paths of the headers that `inline` includes, directly or not."""
    return [os.path.join(include_dir(), path) for path in _INLINE_HEADERS]


@functools.cache
def digest() -> bytes:
    """A hash of the headers that `inline` includes."""
    hashed = hashlib.sha256()
    for path in of_inline():
        with open(path, "rb") as file:
            hashed.update(hashlib.sha256(file.read()).digest())
    return hashed.digest()


@functools.cache
def of_cuda() -> dict[str, str]:
    """The headers for CUDA that NVRTC compiles: name -> content."""
    found = {}
    for path in _CUDA_HEADERS:
        with open(os.path.join(include_dir(), path), encoding="utf-8") as file:
            found[path] = file.read()
    every = f'#include "{_CUDA_STANDARD}"\n'
    return found | dict.fromkeys(_CUDA_STANDARD_NAMES.split(), every)


_INLINE_HEADERS = (
    "xla/ffi/api/c_api.h",
    "xla_ffi/core/define_table.h",
    "xla_ffi/core/half.h",
    "xla_ffi/core/handler_signature.h",
    "xla_ffi/core/handler_table.h",
    "xla_ffi/core/host_device.h",
    "xla_ffi/inline/check.h",
    "xla_ffi/inline/derived.h",
    "xla_ffi/inline/derived_elements.h",
    "xla_ffi/inline/derived_lanes.h",
    "xla_ffi/inline/differentiate.h",
    "xla_ffi/inline/dual.h",
    "xla_ffi/inline/for_each.h",
    "xla_ffi/inline/function.h",
    "xla_ffi/inline/half.h",
    "xla_ffi/inline/kit.h",
    "xla_ffi/inline/lane_rows.h",
    "xla_ffi/inline/lanes.h",
    "xla_ffi/inline/lanes_functions.h",
    "xla_ffi/inline/lanes_math.h",
    "xla_ffi/inline/numbers.h",
    "xla_ffi/inline/parameters.h",
    "xla_ffi/inline/refusals.h",
    "xla_ffi/inline/rows.h",
    "xla_ffi/inline/tape.h",
    "xla_ffi/inline/threads.h",
    "xla_ffi/inline/types.h",
    "xla_ffi/inline/value.h",
    "xla_ffi/inline/var.h",
)

_CUDA_STANDARD = "xla_ffi/inline/cuda/standard.h"
_CUDA_HEADERS = (
    "xla_ffi/core/half.h",
    "xla_ffi/core/host_device.h",
    "xla_ffi/inline/cuda/array.h",
    "xla_ffi/inline/cuda/block.h",
    "xla_ffi/inline/cuda/element.h",
    "xla_ffi/inline/cuda/elements.h",
    "xla_ffi/inline/cuda/kit.h",
    "xla_ffi/inline/cuda/pack.h",
    "xla_ffi/inline/cuda/rows.h",
    _CUDA_STANDARD,
    "xla_ffi/inline/cuda/standard_algorithms.h",
    "xla_ffi/inline/cuda/standard_math.h",
    "xla_ffi/inline/cuda/standard_types.h",
    "xla_ffi/inline/cuda/tiles.h",
    "xla_ffi/inline/derived_elements.h",
    "xla_ffi/inline/dual.h",
    "xla_ffi/inline/for_each.h",
    "xla_ffi/inline/half.h",
    "xla_ffi/inline/numbers.h",
    "xla_ffi/inline/refusals.h",
    "xla_ffi/inline/value.h",
)
# Each of these names includes the whole of the kit's standard library.
_CUDA_STANDARD_NAMES = """algorithm array assert.h cassert cfloat climits cmath
    cstddef cstdint cstdio cstdlib cstring float.h initializer_list limits
    limits.h math.h numeric stddef.h stdint.h stdio.h stdlib.h string.h
    string_view type_traits utility"""
