"""Makes JAX's own functions on CPUs faster, with bit-identical results.

Importing this package changes nothing: `enable()` does.
"""

import contextlib

import xla_ffi_kit

__version__ = "0.1.0"

if xla_ffi_kit.__version__ != __version__:
    raise ImportError(
        f"xla_ffi_accelerate {__version__} needs xla_ffi_kit {__version__}, "
        f"got {xla_ffi_kit.__version__}: install both in one version"
    )

from xla_ffi_accelerate._explain import explain
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_accelerate.switch import disable, disabled, enable, enabled, status

# An exported program that calls a handler runs after this import. A library
# that cannot be used is an error where it is needed.
with contextlib.suppress(xla_ffi_kit.errors.HandlerLibraryError):
    xla_ffi_kit.register(*LIBRARIES)

__all__ = [
    "LIBRARIES",
    "disable",
    "disabled",
    "enable",
    "enabled",
    "explain",
    "status",
]
