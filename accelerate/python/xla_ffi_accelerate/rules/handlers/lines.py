"""Searches and cumulative sums along any axis, without transposing."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TypeAlias

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _comparisons, _dtypes
from xla_ffi_accelerate._rule import Reason, Rule, SelfTest, Typed
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import Advanced, FfiOp

DType: TypeAlias = np.dtype[np.generic]

_INDICES = ("int32", "int64", "uint32", "uint64")
# XLA unrolls the search of a shorter axis, and then searches as fast as it can
# read; the computation of the elements is fused into it.
_MIN_SEARCHED = 32
_MIN_SEARCHED_BF16 = 16
# XLA needs 11 instructions for each integer. The kernel has 20 to 27 in two or
# three columns, one by one, and 2 to 7 in a vector of them.
_MIN_COLUMNS = 4
# XLA has one fused loop for an axis that is no longer. From the front it does
# the work of each element's window anew, which costs little for a few elements.
_MAX_WINDOW = 16
_MIN_LENGTH = 5
_MIN_LENGTH_HALF = 8  # f16 and bf16 are rounded one by one
_MIN_SIZE = 1024


def _first_of(num_axes: int) -> Advanced:
    return Advanced(
        sharded_kernel_axes="restore",
        shape_attributes=lambda x, **_: {"axis": len(x.shape) - num_axes},
    )


@functools.cache
def _argmax(num_axes: int) -> FfiOp[jax.Array]:
    """Searches along the first of the last so many axes."""

    def indices(x: Typed, *, of: str, index_dtype: DType) -> Typed:
        return jax.ShapeDtypeStruct(x.shape[1:], index_dtype)

    return FfiOp(
        "xla_ffi_accelerate.argmax",
        results=indices,
        kernel_axes=num_axes,
        libraries=LIBRARIES,
        attributes={"index_dtype": None},
        advanced=_first_of(num_axes),
    )


@functools.cache
def cumulative(num_axes: int) -> FfiOp[jax.Array]:
    """Adds along the first of the last so many axes."""

    def like(x: Typed, *, reverse: int) -> Typed:
        return x

    axes = ",".join(f"n{i}" for i in range(num_axes))
    return FfiOp(
        "xla_ffi_accelerate.cumulative",
        results=like,
        axes=f"({axes})->({axes})",
        libraries=LIBRARIES,
        advanced=_first_of(num_axes),
    )


def _splits(axis: int, rank: int) -> bool:
    """Whether sharded operands stay in place where XLA leaves them there.

    A custom call's batch axes come first. And XLA reduces each device's part
    of a vector, which is all there is to gather.
    """
    return rank > 1 and axis == rank - 1


def _covers_search(
    x: ShapedArray, *, axes: Sequence[int], index_dtype: DType
) -> Reason:
    (axis,) = axes
    dtype = str(x.dtype)
    kind = "floats" if dtype in _dtypes.FLOATS else "integers"
    least = _MIN_SEARCHED_BF16 if dtype == "bfloat16" else _MIN_SEARCHED
    if reason := _break_even.unless_worth(f"argmax of {kind}", x.size):
        return reason
    if not least <= x.shape[axis] <= 2**31:
        return f"XLA is as fast along fewer than {least} elements"
    if kind == "integers" and 1 < math.prod(x.shape[axis + 1 :]) < _MIN_COLUMNS:
        return f"XLA is as fast for fewer than {_MIN_COLUMNS} columns"
    if dtype not in _dtypes.REAL or str(np.dtype(index_dtype)) not in _INDICES:
        return f"the kernel has no {dtype} with indices of {index_dtype}"
    return None


def _search(
    x: jax.Array, *, of: str, axes: Sequence[int], index_dtype: DType
) -> jax.Array:
    return _argmax(x.ndim - int(axes[0]))(x, of=of, index_dtype=index_dtype)


def _covers_scan(
    x: ShapedArray,
    *,
    dtypes: Sequence[str],
    is_float: bool,
    axis: int,
    reverse: bool,
) -> Reason:
    """`is_float`: whether the order of the sums matters."""
    if is_float and reverse:  # it starts again for each element
        return "XLA adds in another order from the end"
    if reason := _break_even.unless_worth("cumulative", x.size):
        return reason
    least = _MIN_LENGTH_HALF if str(x.dtype) in _dtypes.HALF else _MIN_LENGTH
    if x.shape[axis] <= _MAX_WINDOW and (
        reverse or x.shape[axis] < least or x.size < _MIN_SIZE
    ):
        return f"XLA is as fast along up to {_MAX_WINDOW} elements"
    return _dtypes.unless_in(dtypes, x.dtype)


def _accumulate(x: jax.Array, *, axis: int, reverse: bool) -> jax.Array:
    return cumulative(x.ndim - int(axis))(x, reverse=int(reverse))


def _search_rule(of: str) -> Rule:
    return Rule(
        f"jax.lax.arg{of}_p",
        _covers_search,
        functools.partial(_search, of=of),
        target="xla_ffi_accelerate.argmax",
        folds=True,
        partitions=lambda x, *, axes: _splits(axes[0], len(x.shape)),
    )


def _cumsum(dtypes: Sequence[str], test: SelfTest | None = None) -> Rule:
    return Rule(
        "jax.lax.cumsum_p",
        functools.partial(_covers_scan, dtypes=dtypes, is_float=bool(test)),
        _accumulate,
        target="xla_ffi_accelerate.cumulative",
        folds=True,
        partitions=lambda x, *, axis: _splits(axis, len(x.shape)),
        test=test,
    )


ARGMAX, ARGMIN = _search_rule("max"), _search_rule("min")
CUMSUM = (
    _cumsum(_dtypes.INTEGERS),
    _cumsum(_dtypes.FLOATS, _comparisons.SUMS),
)
