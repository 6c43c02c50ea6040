"""From a string of C++ to an operation: `xla_ffi_kit.inline` and its kin.

`xla_ffi_kit.inline` itself is the function of that name, in `decorators`.
"""
