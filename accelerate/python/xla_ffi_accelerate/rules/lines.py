"""Searches and cumulative operations along any axis, without transposing."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _dtypes, _handler, _self_tests
from xla_ffi_accelerate._rule import Reason, Rule, params

_INDICES = ("int32", "int64", "uint32", "uint64")
# XLA unrolls the search of a shorter axis, and then searches as fast as it can
# read; the computation of the elements is fused into it.
_MIN_SEARCHED = 32
_MIN_SEARCHED_BF16 = 16
# XLA has one fused loop for an axis that is no longer. From the front it does
# the work of each element's window anew, which costs little for a few elements.
_MAX_WINDOW = 16
_MIN_LENGTH = 5
_MIN_LENGTH_HALF = 8  # f16 and bf16 are rounded one by one
_MIN_SIZE = 1024


def _splits(axis: int, rank: int) -> bool:
    """Whether sharded operands stay in place where XLA leaves them there.

    A custom call's batch axes come first. And XLA reduces each device's part
    of a vector, which is all there is to gather.
    """
    return rank > 1 and axis == rank - 1


def _covers_search(
    x: ShapedArray, *, axes: Sequence[int], index_dtype: np.dtype[np.generic]
) -> Reason:
    (axis,) = axes
    dtype = str(x.dtype)
    kind = "floats" if dtype in _dtypes.FLOATS else "integers"
    least = _break_even.size(f"argmax of {kind}")
    if x.size < least:
        return f"XLA is as fast for fewer than {least} elements"
    least = _MIN_SEARCHED_BF16 if dtype == "bfloat16" else _MIN_SEARCHED
    if not least <= x.shape[axis] <= 2**31:
        return f"XLA is as fast along fewer than {least} elements"
    if dtype not in _dtypes.REAL or str(np.dtype(index_dtype)) not in _INDICES:
        return f"the kernel has no {dtype} with indices of {index_dtype}"
    return None


def _search(
    x: jax.Array,
    *,
    of: str,
    axes: Sequence[int],
    index_dtype: np.dtype[np.generic],
) -> list[jax.Array]:
    (axis,) = axes
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return _handler.call(
        *("xla_ffi_accelerate.argmax", [(shape, index_dtype)], x),
        row_batch=x.ndim - 1 if _splits(axis, x.ndim) else 0,
        axis=axis,
        of=of,
    )


def _covers_integers(
    x: ShapedArray, *, has_floats: bool, axis: int, reverse: bool
) -> Reason:
    dtype = str(x.dtype)
    least = _break_even.size("cumulative")
    if x.size < least:
        return f"XLA is as fast for fewer than {least} elements"
    least = _MIN_LENGTH_HALF if dtype in _dtypes.HALF else _MIN_LENGTH
    if x.shape[axis] <= _MAX_WINDOW and (
        reverse or x.shape[axis] < least or x.size < _MIN_SIZE
    ):
        return f"XLA is as fast along up to {_MAX_WINDOW} elements"
    if dtype in (*_dtypes.SIGNED, *_dtypes.UNSIGNED):
        return None
    if has_floats and dtype in _dtypes.FLOATS:
        return None
    return f"the kernel has no {dtype}"


def _covers_floats(x: ShapedArray, *, axis: int, reverse: bool) -> Reason:
    if reverse:  # it starts again for each element
        return "XLA adds in another order from the end"
    if str(x.dtype) not in _dtypes.FLOATS:
        return f"the kernel has no {x.dtype}"
    return _covers_integers(x, has_floats=True, axis=axis, reverse=reverse)


def _accumulate(
    x: jax.Array, *, op: str, axis: int, reverse: bool
) -> list[jax.Array]:
    return _handler.call(
        *("xla_ffi_accelerate.cumulative", [(x.shape, x.dtype)], x),
        row_batch=x.ndim - 1 if _splits(axis, x.ndim) else 0,
        axis=axis,
        op=op,
        reverse=int(reverse),
    )


def _search_rule(of: str) -> Rule:
    return Rule(
        f"jax.lax.arg{of}_p",
        params("axes", "index_dtype"),
        _covers_search,
        functools.partial(_search, of=of),
        target="xla_ffi_accelerate.argmax",
        partitions=lambda x, *, axes, **_: _splits(axes[0], len(x.shape)),
    )


def _cumulative_rule(name: str, op: str, of_floats: bool = False) -> Rule:
    # A maximum or minimum that meets a NaN is one; its sign depends on the
    # processor that XLA compiles for, and on the release.
    has_floats = op in ("max", "min")
    return Rule(
        f"jax.lax.{name}_p",
        params("axis", "reverse"),
        _covers_floats
        if of_floats
        else functools.partial(_covers_integers, has_floats=has_floats),
        functools.partial(_accumulate, op=op),
        target="xla_ffi_accelerate.cumulative",
        partitions=lambda x, *, axis, **_: _splits(axis, len(x.shape)),
        test=_self_tests.ALONG_LINES if of_floats else None,
    )


ARGMAX, ARGMIN = _search_rule("max"), _search_rule("min")
CUMMAX = _cumulative_rule("cummax", "max")
CUMMIN = _cumulative_rule("cummin", "min")
CUMPROD = (
    _cumulative_rule("cumprod", "product"),
    _cumulative_rule("cumprod", "product", of_floats=True),
)
CUMSUM = (
    _cumulative_rule("cumsum", "sum"),
    _cumulative_rule("cumsum", "sum", of_floats=True),
)
