"""Faster `isin`, `nonzero` and `unique`, which are not primitives of JAX.

Each has the arguments and results of the function of that name in `jax.numpy`.
"""

from xla_ffi_accelerate.numpy._isin import isin
from xla_ffi_accelerate.numpy._nonzero import nonzero
from xla_ffi_accelerate.numpy._unique import unique

__all__ = ["isin", "nonzero", "unique"]
