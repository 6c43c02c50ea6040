"""Switches xla_ffi_accelerate on in any program: XLA_FFI_ACCELERATE=exact.

JAX imports the modules of the namespace package `jax_plugins` and calls their
`initialize` when it starts its backends, before anything is lowered. Without
the variable, this one imports nothing.
"""

import os

VARIABLE = "XLA_FFI_ACCELERATE"


def initialize() -> None:
    """Enables what the variable names; an error is only said."""
    value = os.environ.get(VARIABLE, "").strip()
    if not value:
        return
    import warnings

    try:
        from xla_ffi_accelerate import switch

        switch.enable_from(value)
    except Exception as error:
        warnings.warn(
            f"{VARIABLE}={value} is left out: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
