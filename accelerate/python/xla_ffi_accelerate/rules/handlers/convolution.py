"""Depthwise convolutions: each channel has a kernel of its own.

XLA hands those of f32 in two dimensions to kernels whose order of sums is known
and makes loops of all others. The gradient of the input, without strides, is
one of them too.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.lax import ConvDimensionNumbers

from xla_ffi_accelerate import _break_even, _comparisons, _loops
from xla_ffi_accelerate._operands import Pad
from xla_ffi_accelerate._rule import Operation, Reason, Rule
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_kit import FfiOp

# XLA convolves fewer channels than this by a matrix product, whose order of
# sums is another one.
_MIN_CHANNELS = 17
_MAX_SIZE = 2**30  # kMaxConvSize
# XLA's own layouts, by JAX's order: batch or outputs, channels, rows, columns.
_NHWC, _HWIO = (0, 3, 1, 2), (3, 2, 0, 1)

_op: FfiOp[jax.Array] = FfiOp(
    "xla_ffi_accelerate.conv_general_dilated",
    results=lambda x, _, *, shape, **__: jax.ShapeDtypeStruct(shape, x.dtype),
    libraries=LIBRARIES,
    attributes={"shape": None},
)


@dataclasses.dataclass(frozen=True)
class _Dimension:
    """A spatial dimension, as `ConvDimension` in the kernel has it."""

    base: int
    window: int
    stride: int
    padding: tuple[int, int]
    dilation: int  # of the window

    @property
    def span(self) -> int:
        """How much of the base a window covers."""
        return (self.window - 1) * self.dilation + 1

    @property
    def result(self) -> int:
        """The number of places of the window."""
        room = self.base + sum(self.padding) - self.span
        return max(room // self.stride + 1, 0)

    def reason(self) -> Reason:
        """Why XLA's kernels do not have the dimension, or this one does not."""
        sizes = self.base, self.window, self.stride, self.dilation
        if max(*sizes, *map(abs, self.padding)) > _MAX_SIZE:
            return f"a size of the window is larger than {_MAX_SIZE}"
        if self.span > self.base or not 1 < self.result <= self.base:
            return "XLA convolves otherwise with this padding"
        return None


def _dimensions(
    base: Sequence[int],
    window: Sequence[int],
    numbers: ConvDimensionNumbers,
    strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> list[_Dimension]:
    sizes = (
        [shape[axis] for axis in spec[2:]]
        for shape, spec in (
            (base, numbers.lhs_spec),
            (window, numbers.rhs_spec),
        )
    )
    given = zip(*sizes, strides, map(tuple, padding), dilation, strict=True)
    return [_Dimension(*each) for each in given]


def _last(spec: Sequence[int]) -> tuple[int, ...]:
    """The axes of an array with the batch first and the channels last."""
    return (spec[0], *spec[2:], spec[1])


def _covers(
    base: ShapedArray,
    window: ShapedArray,
    *,
    batch_group_count: int,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    lhs_dilation: Sequence[int],
    out_sharding: object,
    padding: Sequence[tuple[int, int]],
    precision: object,
    preferred_element_type: np.dtype[np.generic] | None,
    rhs_dilation: Sequence[int],
    window_strides: Sequence[int],
) -> Reason:
    del precision  # the CPU has one
    numbers = dimension_numbers
    lhs, rhs, out = numbers
    dtypes = {str(base.dtype), str(window.dtype)}
    dtypes.add(str(preferred_element_type or base.dtype))
    if dtypes != {"float32"} or len(lhs) != 4:
        return "XLA's order is known for f32 in two spatial dimensions"
    if out_sharding is not None:
        return "the result's sharding is asked for"
    channels = base.shape[lhs[1]]
    if batch_group_count != 1 or not (
        feature_group_count == channels == window.shape[rhs[0]]
    ):
        return "the convolution is not one of channels with one kernel each"
    if channels < _MIN_CHANNELS:
        return (
            f"XLA multiplies matrices for fewer than {_MIN_CHANNELS} channels"
        )
    if set(lhs_dilation) != {1}:
        return "XLA convolves a dilated base otherwise"
    dimensions = _dimensions(
        *(base.shape, window.shape, numbers),
        *(window_strides, padding, rhs_dilation),
    )
    reasons = [r for d in dimensions if (r := d.reason()) is not None]
    if reasons:
        return reasons[0]
    if math.prod(d.window for d in dimensions) <= 1:
        return "XLA makes products of a window of one element"
    is_own = (lhs, rhs, out) == (_NHWC, _HWIO, _NHWC)
    if not is_own and _loops.nested():
        return "in a loop or a branch, XLA convolves this layout otherwise"
    products = base.shape[lhs[0]] * channels
    products *= math.prod(d.window * d.result for d in dimensions)
    return _break_even.unless_worth(
        *("depthwise convolution", products, "products")
    )


def _with_pad(
    pad: Pad, avals: Sequence[ShapedArray], parameters: Mapping[str, Any]
) -> Operation:
    base, window = avals
    axes = parameters["dimension_numbers"].lhs_spec[2:]
    padding = zip(axes, parameters["padding"], strict=True)
    dilation = zip(axes, parameters["lhs_dilation"], strict=True)
    return [ShapedArray(pad.shape, base.dtype), window], {
        **parameters,
        "padding": [
            (low + pad.low[i], high + pad.high[i]) for i, (low, high) in padding
        ],
        "lhs_dilation": [n * (1 + pad.interior[i]) for i, n in dilation],
    }


def _convolve(
    base: jax.Array,
    window: jax.Array,
    *,
    is_fused: int,
    dimension_numbers: ConvDimensionNumbers,
    padding: Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int],
    window_strides: Sequence[int],
) -> jax.Array:
    """`is_fused`: what the self-test has found."""
    lhs, rhs, out = dimension_numbers
    dimensions = _dimensions(
        *(base.shape, window.shape, dimension_numbers),
        *(window_strides, padding, rhs_dilation),
    )
    images = jax.lax.transpose(base, _last(lhs))
    kernels = jax.lax.transpose(window, (*rhs[2:], rhs[1], rhs[0]))
    sizes = [d.result for d in dimensions]
    result = _op(
        images,
        jax.lax.squeeze(kernels, [2]),
        strides=tuple(d.stride for d in dimensions),
        padding=tuple(d.padding[0] for d in dimensions),
        window_dilation=tuple(d.dilation for d in dimensions),
        is_fused=is_fused,
        shape=(images.shape[0], *sizes, images.shape[3]),
    )
    return jax.lax.transpose(result, np.argsort(_last(out)))


EXACT = Rule(
    "jax.lax.conv_general_dilated_p",
    _covers,
    _convolve,
    folds=True,
    with_pad=_with_pad,
    target=_op.name,
    test=_comparisons.CONVOLVED,
)
