"""C++ and CUDA kernels as first-class JAX operations.

Importing this package registers its handlers, so that exported programs that
call them run, and starts no JAX backend. Beside the names below there are the
modules `errors`, `extend` (for packages with lowering rules of their own),
`ops` and `testing`.
"""

import importlib
from typing import TYPE_CHECKING

from xla_ffi_kit import errors as errors
from xla_ffi_kit import ops as ops
from xla_ffi_kit.compile.build import build_library
from xla_ffi_kit.compile.headers import include_dir
from xla_ffi_kit.export import export_checks
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES, HandlerLibrary
from xla_ffi_kit.library.kept_objects import keep
from xla_ffi_kit.library.registration import register, register_early
from xla_ffi_kit.op.reference_switch import use_reference
from xla_ffi_kit.op.spec import Advanced
from xla_ffi_kit.ops import modular_add, relu, rms_norm

__version__ = "0.1.0"

__all__ = [
    "Advanced",
    "FfiOp",
    "HandlerLibrary",
    "build_library",
    "c_function",
    "cuda",
    "elementwise",
    "export_checks",
    "include_dir",
    "inline",
    "keep",
    "modular_add",
    "numba_kernel",
    "register",
    "relu",
    "rms_norm",
    "rows",
    "use_reference",
]
# What an operation with a handler does not need is imported when it is used:
# name -> module.
_LATER = {
    "c_function": "functions.c_function",
    "cuda": "strings.cuda.blocks",
    "elementwise": "strings.decorators",
    "inline": "strings.decorators",
    "numba_kernel": "functions.numba_kernel",
    "rows": "strings.decorators",
}
_MODULES = ["errors", "extend", "ops", "testing"]

for _library in KIT_LIBRARIES:
    register_early(_library)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]


if TYPE_CHECKING:
    from xla_ffi_kit import extend as extend
    from xla_ffi_kit import testing as testing
    from xla_ffi_kit.functions.c_function import c_function
    from xla_ffi_kit.functions.numba_kernel import numba_kernel
    from xla_ffi_kit.strings.cuda.blocks import cuda
    from xla_ffi_kit.strings.decorators import elementwise, inline, rows
else:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _LATER:
            module = importlib.import_module(f"{__name__}.{_LATER[name]}")
            globals()[name] = getattr(module, name)
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
