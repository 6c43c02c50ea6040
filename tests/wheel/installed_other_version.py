"""Imports accelerate beside a kit that says it is another version."""

import xla_ffi_kit

xla_ffi_kit.__version__ = "0.0.1"
try:
    import xla_ffi_accelerate  # noqa: F401
except ImportError as error:
    print(error)
