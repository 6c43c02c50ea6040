"""What JAX asks of an operation, by JAX's words; `ffi_op` installs it."""
