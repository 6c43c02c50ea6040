"""Switches xla_ffi_accelerate on in any program: XLA_FFI_ACCELERATE=exact.

JAX imports the modules that entry points of the group `jax_plugins` name, and
calls their `initialize` when it starts its backends, before anything is
lowered. Without the variable, this one imports nothing; so it is in no package.
One that is in the folder `jax_plugins` is not found beside another
distribution's that has an `__init__.py`.
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
