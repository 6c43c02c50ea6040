"""max(x, 0); the handler is in `xla_ffi/ops/relu`."""

from __future__ import annotations

import jax
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.primitive.ffi_op import FfiOp

_NAME = "xla_ffi_kit.relu"


def _check_operands(x: Typed) -> None:
    _check.dtype(
        _NAME, "x", x, (*_dtypes.FLOAT8, *_dtypes.FLOATS, *_dtypes.SIGNED)
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
    check=_check_operands,
)


def relu(x: ArrayLike) -> jax.Array:
    """max(x, 0); NaN stays NaN. The derivative at 0 is 0.

    Args:
      x: any shape; float8_e5m2, float16, bfloat16, float32, float64 or a signed
        integer.

    Returns:
      y, with the shape and dtype of x.

    Raises:
      TypeError: the dtype is not supported.
    """
    return relu_op(x)
