"""The indices of the elements that are not zero: `jnp.nonzero`, faster.

The handler is in `accelerate/kernels/nonzero`.
"""

from __future__ import annotations

import operator
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import Advanced, FfiOp

_NAME = "xla_ffi_accelerate.nonzero"
FillValue: TypeAlias = ArrayLike | tuple[ArrayLike, ...] | None


def _reference(mask: jax.Array, *, size: int, fill: int) -> jax.Array:
    def of_row(row: jax.Array) -> jax.Array:
        if not row.size:  # for which jnp.nonzero forgets fill_value
            return jnp.full(size, fill, int)
        return jnp.nonzero(row, size=size, fill_value=fill)[0]

    for _ in range(mask.ndim - 1):
        of_row = jax.vmap(of_row)
    return of_row(mask)


nonzero_op = FfiOp(
    _NAME,
    _reference,
    kernel_axes=1,
    handlers={"cpu": _NAME},
    libraries=LIBRARIES,
    advanced=Advanced(
        sharded_kernel_axes="gather", part_of="xla_ffi_accelerate.unique"
    ),
)


def nonzero(
    a: ArrayLike, *, size: int | None = None, fill_value: FillValue = None
) -> tuple[jax.Array, ...]:
    """The indices of the nonzero elements, like `jnp.nonzero`.

    Args:
      a: an array of rank >= 1.
      size: the number of indices to return, those of the first elements. You
        need it inside `jax.jit`. Default: all.
      fill_value: the value of the remaining indices if there are fewer than
        `size`: a number, or one for each axis. Default: 0.

    Returns:
      One array of `size` indices for each axis of `a`; int32, or int64 with
      x64.

    Raises:
      ValueError: the rank is 0, or `fill_value` has a wrong shape.
    """
    a = jnp.asarray(a)
    if a.ndim == 0 or a.size == 0:
        return jnp.nonzero(a, size=size, fill_value=fill_value)
    mask = a if a.dtype == bool else a != 0
    size = _count(mask) if size is None else operator.index(size)
    if size == 0:
        return jnp.nonzero(mask, size=size, fill_value=fill_value)
    fill_values = _fill_values(fill_value, a.ndim)
    fill = fill_values[0]
    if a.ndim == 1 and isinstance(fill, int) and abs(fill) < 2**31:
        return (nonzero_op(mask, size=size, fill=int(fill)),)
    flat = nonzero_op(mask.ravel(), size=size, fill=-1)
    is_missing = flat < 0
    strides = np.cumprod((1, *a.shape[:0:-1]))[::-1]
    indices = []
    for n, stride, fill in zip(a.shape, strides, fill_values, strict=True):
        index = flat
        if stride > 1:
            index = jax.lax.div(index, np.asarray(stride, flat.dtype))
        if n * stride < a.size:
            index = jax.lax.rem(index, np.asarray(n, flat.dtype))
        indices.append(jnp.where(is_missing, fill, index))
    return tuple(indices)


def _count(mask: jax.Array) -> int:
    """Counts the true elements; raises if their values are not known yet."""
    is_here = not isinstance(mask, jax.core.Tracer) and {
        device.platform for device in mask.devices()
    } == {"cpu"}
    if is_here and mask.is_fully_addressable:
        # Without a copy, and ten times as fast as the sum of booleans.
        return int(np.count_nonzero(np.asarray(mask)))
    return int(mask.sum())


def _fill_values(fill_value: FillValue, rank: int) -> tuple[ArrayLike, ...]:
    if isinstance(fill_value, tuple):
        values = fill_value
    else:
        values = (0 if fill_value is None else fill_value,) * rank
    if len(values) != rank or any(np.shape(value) for value in values):
        raise ValueError(
            f"{_NAME}: fill_value: expected a number or a tuple of {rank}, "
            f"got {fill_value!r}"
        )
    return values
