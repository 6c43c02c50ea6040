"""max(x, 0); the handler is in `xla_ffi/ops/relu`."""

from __future__ import annotations

import jax

from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES


def _relu(x: jax.Array) -> jax.Array:
    """max(x, 0); NaN stays NaN. The derivative at 0 is 0.

    Args:
      x: any shape; float8_e5m2, float16, bfloat16, float32, float64 or a signed
        integer.

    Returns:
      y, with the shape and dtype of x, as `jax.nn.relu` gives it.

    Raises:
      TypeError: the dtype is not supported.
    """
    # Unlike that of jnp.maximum, its derivative at 0 is 0, by convention.
    return jax.nn.relu(x)


relu = FfiOp("xla_ffi_kit.relu", _relu, libraries=KIT_LIBRARIES)
