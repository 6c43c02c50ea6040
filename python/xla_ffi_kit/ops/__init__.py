"""The kit's own operations, each in a module of its name."""

from xla_ffi_kit.library.handler_library import KIT_LIBRARIES as LIBRARIES
from xla_ffi_kit.ops.modular_add import modular_add
from xla_ffi_kit.ops.relu import relu
from xla_ffi_kit.ops.rms_norm import rms_norm

__all__ = ["LIBRARIES", "modular_add", "relu", "rms_norm"]
