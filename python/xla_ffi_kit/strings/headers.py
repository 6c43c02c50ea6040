"""The C++ headers that the package carries."""

from __future__ import annotations

import functools
import hashlib
import os


def include_dir() -> str:
    """Returns the folder of the headers for handlers.

    It contains XLA's FFI headers of the oldest version that the kit supports
    ("xla/ffi/api/ffi.h"), the kit's helpers ("xla_ffi/core/handler.h"), and the
    headers of `inline` ("xla_ffi/inline/kit.h").
    """
    # Not resolved: under Bazel the package is links in the runfiles.
    here = os.path.dirname(os.path.abspath(__file__))
    return os.path.join(os.path.dirname(here), "include")


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


_INLINE_HEADERS = (
    "xla/ffi/api/c_api.h",
    "xla_ffi/core/define_table.h",
    "xla_ffi/core/half.h",
    "xla_ffi/core/handler_signature.h",
    "xla_ffi/core/handler_table.h",
    "xla_ffi/core/host_device.h",
    "xla_ffi/inline/check.h",
    "xla_ffi/inline/kit.h",
    "xla_ffi/inline/parameters.h",
    "xla_ffi/inline/rows.h",
    "xla_ffi/inline/threads.h",
    "xla_ffi/inline/types.h",
)
