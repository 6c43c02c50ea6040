"""Where there is no wheel: JAX imports what is in the folder `jax_plugins`."""

from xla_ffi_accelerate_plugin import initialize as initialize
