"""The handler library that the package carries."""

import os

from xla_ffi_kit import HandlerLibrary

CPU_LIBRARY = HandlerLibrary(
    # Not resolved: under Bazel the package is links in the runfiles.
    os.path.join(
        os.path.dirname(os.path.abspath(__file__)),
        "_lib/xla_ffi_accelerate_cpu.so",
    )
)
LIBRARIES = (CPU_LIBRARY,)
