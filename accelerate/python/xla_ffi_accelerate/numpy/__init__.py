"""JAX's functions that are no primitives, on the kit's kernels.

Each takes and returns what the function of its name in `jax.numpy` does.
"""

from xla_ffi_accelerate.numpy._isin import isin
from xla_ffi_accelerate.numpy._nonzero import nonzero
from xla_ffi_accelerate.numpy._unique import unique

__all__ = ["isin", "nonzero", "unique"]
