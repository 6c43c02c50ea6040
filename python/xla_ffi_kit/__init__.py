"""C++ and CUDA kernels as first-class JAX operations.

Importing this package registers its handlers, so that exported programs that
call them run, and starts no JAX backend.
"""

from xla_ffi_kit import lowering
from xla_ffi_kit.library.capsules import CapsuleLibrary
from xla_ffi_kit.library.handler_library import (
    KIT_LIBRARIES,
    LAUNCHER,
    HandlerLibrary,
    HandlerLibraryError,
    libraries_beside,
)
from xla_ffi_kit.library.known_faults import KnownBadReleaseWarning
from xla_ffi_kit.library.registration import (
    register_at_import,
    register_handlers,
)
from xla_ffi_kit.ops.modular_add import modular_add
from xla_ffi_kit.ops.relu import relu
from xla_ffi_kit.ops.rms_norm import rms_norm
from xla_ffi_kit.primitive.export import export_checks
from xla_ffi_kit.primitive.ffi_op import FfiOp, ffi_op
from xla_ffi_kit.primitive.reference_switch import use_reference
from xla_ffi_kit.strings.build import build_library
from xla_ffi_kit.strings.cuda_blocks import cuda
from xla_ffi_kit.strings.cuda_kernel import CudaStringWarning
from xla_ffi_kit.strings.decorators import elementwise, inline, rows
from xla_ffi_kit.strings.errors import BuildError
from xla_ffi_kit.strings.headers import include_dir
from xla_ffi_kit.strings.numba_handler import numba_kernel

__version__ = "0.1.0"

__all__ = [
    "KIT_LIBRARIES",
    "BuildError",
    "CapsuleLibrary",
    "CudaStringWarning",
    "FfiOp",
    "HandlerLibrary",
    "HandlerLibraryError",
    "KnownBadReleaseWarning",
    "build_library",
    "cuda",
    "elementwise",
    "export_checks",
    "ffi_op",
    "include_dir",
    "inline",
    "libraries_beside",
    "lowering",
    "modular_add",
    "numba_kernel",
    "register_at_import",
    "register_handlers",
    "relu",
    "rms_norm",
    "rows",
    "use_reference",
]

register_at_import(*KIT_LIBRARIES, LAUNCHER)


def __dir__() -> list[str]:
    return __all__
