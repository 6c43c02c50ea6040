"""JAX's own primitives on the kit's CPU kernels, one module per primitive.

`xla_ffi_kit.accelerate` itself is the function of that name, in `switch`.
"""
