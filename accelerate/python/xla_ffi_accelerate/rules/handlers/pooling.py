"""The gradient of max and min pooling."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
from jax.core import ShapedArray

from xla_ffi_accelerate import _break_even, _comparisons, _dtypes
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Reason, Rule
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import FfiOp

# The kernel looks at a window's elements one by one.
_MAX_WINDOW = 1024
_MAX_STRIDE = 2**30  # kMaxPoolSize


_op: FfiOp[jax.Array] = FfiOp(
    "xla_ffi_accelerate.select_and_scatter_add",
    results=lambda source, operand, **_: operand,
    libraries=LIBRARIES,
)


@dataclasses.dataclass(frozen=True)
class _Pool:
    """A gradient as the handler has it: of images with channels."""

    shape: tuple[int, ...]
    pooled_shape: tuple[int, ...]
    window: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]


def _match(
    pooled: Sequence[int],
    shape: Sequence[int],
    padding: Sequence[tuple[int, int]],
    window: Sequence[int],
    strides: Sequence[int],
) -> _Pool | None:
    """The images, unless other dimensions than two adjacent ones are pooled."""
    own = [
        i
        for i in range(len(shape))
        if (window[i], strides[i], tuple(padding[i])) != (1, 1, (0, 0))
    ]
    if not own or own[-1] - own[0] > 1:
        return None
    first, end = own[0], own[-1] + 1
    row = (1,) * (2 - len(own))  # a single one

    def images(sizes: Sequence[int]) -> tuple[int, ...]:
        lead, rest = math.prod(sizes[:first]), math.prod(sizes[end:])
        return (lead, *row, *sizes[first:end], rest)

    return _Pool(
        shape=images(shape),
        pooled_shape=images(pooled),
        window=(*row, *window[first:end]),
        strides=(*row, *strides[first:end]),
        padding=(*(0 for _ in row), *(low for low, _ in padding[first:end])),
    )


def _covers(
    source: ShapedArray,
    operand: ShapedArray,
    *,
    select_prim: Primitive,
    padding: Sequence[tuple[int, int]],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
) -> Reason:
    window = math.prod(window_dimensions)
    given = padding, window_dimensions, window_strides
    if select_prim.name not in ("ge", "le"):
        return "it is neither a maximum nor a minimum"
    if _match(source.shape, operand.shape, *given) is None:
        return "other dimensions than one or two adjacent ones are pooled"
    ends = zip(padding, window_dimensions, strict=True)
    if any(not 0 <= end < size for pair, size in ends for end in pair):
        return "the padding is longer than the window"
    if window > _MAX_WINDOW:
        return f"the window has more than {_MAX_WINDOW} elements"
    if max(window_strides) > _MAX_STRIDE:
        return f"a stride is longer than {_MAX_STRIDE}"
    return _dtypes.unless_in(
        _dtypes.WIDE, operand.dtype
    ) or _break_even.unless_worth("gradient of pooling", window * source.size)


def _scatter(
    source: jax.Array,
    operand: jax.Array,
    *,
    select_prim: Primitive,
    padding: Sequence[tuple[int, int]],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
) -> jax.Array:
    given = padding, window_dimensions, window_strides
    pool = _match(source.shape, operand.shape, *given)
    assert pool is not None  # a rule that covers it matches it
    result = _op(
        source.reshape(pool.pooled_shape),
        operand.reshape(pool.shape),
        window=pool.window,
        strides=pool.strides,
        padding=pool.padding,
        is_min=int(select_prim.name == "le"),
    )
    return result.reshape(operand.shape)


SELECT_AND_SCATTER_ADD = Rule(
    "select_and_scatter_add",
    _covers,
    _scatter,
    target=_op.name,
    folds=True,
    test=_comparisons.POOLED,
)
