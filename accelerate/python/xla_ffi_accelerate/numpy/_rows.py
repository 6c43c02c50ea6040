"""Sorts rows, with or without a payload, for the package's other functions.

The handler is in `accelerate/kernels/sort`. The sort is stable; NaNs come last,
and -0.0 equals 0.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

import jax
import jax.numpy as jnp

from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import Advanced, FfiOp

_TARGET = "xla_ffi_accelerate.sort"

_Result: TypeAlias = jax.Array | tuple[jax.Array, ...]
_R = TypeVar("_R", bound=_Result)


def _sort(x: jax.Array, *, num_keys: int) -> jax.Array:
    return jax.lax.sort(x, dimension=x.ndim - 1)


def _sort_pairs(
    key: jax.Array, value: jax.Array, *, num_keys: int
) -> tuple[jax.Array, jax.Array]:
    pair = jax.lax.sort((key, value), dimension=key.ndim - 1, num_keys=num_keys)
    return pair[0], pair[1]


def _sort_jvp(
    primals: tuple[jax.Array], tangents: tuple[jax.Array], *, num_keys: int
) -> tuple[jax.Array, jax.Array]:
    x_sorted, order = argsort_rows(primals[0])
    return x_sorted, _reorder(tangents[0], order)


def _sort_pairs_jvp(
    primals: tuple[jax.Array, jax.Array],
    tangents: tuple[jax.Array, jax.Array],
    *,
    num_keys: int,
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, ...]]:
    results = sort_pairs_op(*primals, num_keys=num_keys)
    order = argsort_rows(primals[0])[1]
    return results, tuple(_reorder(t, order) for t in tangents)


def _reorder(tangent: jax.Array, order: jax.Array) -> jax.Array:
    if tangent.dtype == jax.dtypes.float0:  # of integers
        return tangent
    return jnp.take_along_axis(tangent, order, -1, mode="promise_in_bounds")


def _make_op(
    name: str,
    reference: Callable[..., _R],
    jvp: Callable[..., tuple[_Result, _Result]],
) -> FfiOp[_R]:
    return FfiOp(
        name,
        reference,
        kernel_axes=1,
        handlers={"cpu": _TARGET},
        libraries=LIBRARIES,
        jvp=jvp,
        advanced=Advanced(
            sharded_kernel_axes="gather",
            part_of=("xla_ffi_accelerate.sort", "xla_ffi_accelerate.unique"),
        ),
    )


sort_op = _make_op(_TARGET, _sort, _sort_jvp)
sort_pairs_op = _make_op(
    "xla_ffi_accelerate.sort_pairs", _sort_pairs, _sort_pairs_jvp
)


def argsort_rows(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Each row sorted, and the indices of its elements in that order.

    Rows lie along the last axis. Their dtype is one of `REAL`.
    """
    dtype = jnp.arange(0).dtype
    index = jax.lax.broadcasted_iota(dtype, x.shape, x.ndim - 1)
    return sort_pairs_op(x, index, num_keys=1)
