"""A[i] = B[i % len(B)] + C[i], the custom call of XLA's own tutorial.

The handler is in `xla_ffi/ops/modular_add`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._check import Typed
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.primitive.ffi_op import FfiOp

_NAME = "xla_ffi_kit.modular_add"
_DTYPES = (
    *_dtypes.FLOATS,
    *_dtypes.COMPLEX,
    *_dtypes.SIGNED,
    *_dtypes.UNSIGNED,
)


def _check_operands(b: Typed, c: Typed) -> None:
    _check.dtype(_NAME, "b", b, _DTYPES)
    _check.same_dtype(_NAME, "c", c, "b", b)
    if not isinstance(c.shape[-1], int) or c.shape[-1] > 0:
        _check.non_empty_axis(_NAME, "b", b, -1)


def _reference(b: jax.Array, c: jax.Array) -> jax.Array:
    n, m = b.shape[-1], c.shape[-1]
    if isinstance(m, int) and m == 0:
        return c
    # Repeat and cut rather than gather: it differentiates and shards better.
    # (jnp.tile would do; on explicit meshes, only since jax 0.10.)
    lead, repeats = b.shape[:-1], -(-m // n)
    tiled = jnp.broadcast_to(b[..., None, :], (*lead, repeats, n))
    return tiled.reshape(*lead, repeats * n)[..., :m] + c


modular_add_op = FfiOp(
    _NAME,
    _reference,
    kernel_axes=1,
    handlers={"cpu": _NAME, "cuda": _NAME},
    libraries=KIT_LIBRARIES,
    check=_check_operands,
    linear=(0, 1),
)


def modular_add(b: ArrayLike, c: ArrayLike) -> jax.Array:
    """a[..., i] = b[..., i % n] + c[..., i].

    Args:
      b: `[*B, n]`; any float, complex or integer dtype of 8 to 128 bits. n may
        be 0 only if m is 0.
      c: `[*B, m]`, with the dtype and the leading axes of b.

    Returns:
      a, with the shape and dtype of c.

    Raises:
      TypeError: a dtype is not supported, or the dtypes differ.
      ValueError: a rank is 0, the leading axes differ, or b is empty.
    """
    return modular_add_op(b, c)
