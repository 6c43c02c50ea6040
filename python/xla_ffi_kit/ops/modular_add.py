"""A[i] = B[i % len(B)] + C[i], the custom call of XLA's own tutorial.

The handler is in `xla_ffi/ops/modular_add`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from xla_ffi_kit import _check
from xla_ffi_kit._check import Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.op.spec import Advanced

_NAME = "xla_ffi_kit.modular_add"


def _check_operands(b: Typed, c: Typed) -> None:
    if not isinstance(c.shape[-1], int) or c.shape[-1] > 0:
        _check.non_empty_axis(_NAME, "b", b, -1)


def _modular_add(b: jax.Array, c: jax.Array) -> jax.Array:
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
    n, m = b.shape[-1], c.shape[-1]
    if isinstance(m, int) and m == 0:
        return c
    # To repeat b and cut it differentiates and shards better than a gather.
    # jnp.tile would do the same, but on Explicit meshes only since jax 0.10.
    lead, repeats = b.shape[:-1], -(-m // n)
    tiled = jnp.broadcast_to(b[..., None, :], (*lead, repeats, n))
    return tiled.reshape(*lead, repeats * n)[..., :m] + c


modular_add = FfiOp(
    _NAME,
    _modular_add,
    libraries=KIT_LIBRARIES,
    linear=("b", "c"),
    advanced=Advanced(check=_check_operands),
)
