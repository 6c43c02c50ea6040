"""C++ and CUDA kernels as first-class JAX operations.

Importing this package starts no JAX backend: handlers are registered when an
operation is first lowered.
"""

from xla_ffi_kit._accelerate import accelerate, accelerated
from xla_ffi_kit._export import export_checks
from xla_ffi_kit._implementation import use_reference
from xla_ffi_kit._library import (
    KIT_LIBRARIES,
    HandlerLibrary,
    HandlerLibraryError,
    libraries_beside,
)
from xla_ffi_kit._registration import register_handlers
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.ops.isin import isin
from xla_ffi_kit.ops.modular_add import modular_add
from xla_ffi_kit.ops.nonzero import nonzero
from xla_ffi_kit.ops.permutation import choice, permutation
from xla_ffi_kit.ops.quantile import median, percentile, quantile
from xla_ffi_kit.ops.relu import relu
from xla_ffi_kit.ops.rms_norm import rms_norm
from xla_ffi_kit.ops.rms_norm_block import rms_norm_block
from xla_ffi_kit.ops.unique import unique

__all__ = [
    "KIT_LIBRARIES",
    "FfiOp",
    "HandlerLibrary",
    "HandlerLibraryError",
    "accelerate",
    "accelerated",
    "choice",
    "export_checks",
    "isin",
    "libraries_beside",
    "median",
    "modular_add",
    "nonzero",
    "percentile",
    "permutation",
    "quantile",
    "register_handlers",
    "relu",
    "rms_norm",
    "rms_norm_block",
    "unique",
    "use_reference",
]
