"""max(x, 0), on the handler of `xla_ffi/ops/relu`."""

from __future__ import annotations

from typing import Any

import jax

from xla_ffi_kit import _check
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.ffi_op import FfiOp

_NAME = "xla_ffi_kit.relu"
_DTYPES = (
    *("float16", "bfloat16", "float32", "float64"),
    *("int8", "int16", "int32", "int64"),
)


def _reference(x: jax.Array) -> jax.Array:
    # Unlike that of jnp.maximum, its derivative at 0 is 0, by convention.
    return jax.nn.relu(x)


relu_op = FfiOp(
    _NAME,
    _reference,
    kernel_axes=0,
    handlers={"cpu": _NAME, "cuda": _NAME},
    libraries=KIT_LIBRARIES,
)


def relu(x: Any) -> jax.Array:
    """max(x, 0); NaN stays NaN. The derivative at 0 is 0.

    Args:
      x: any shape; float16, bfloat16, float32, float64 or a signed integer.

    Returns:
      y like x.

    Raises:
      TypeError: another dtype.
    """
    x = _check.array(_NAME, "x", x)
    _check.dtype(_NAME, "x", x, _DTYPES)
    return relu_op(x)
