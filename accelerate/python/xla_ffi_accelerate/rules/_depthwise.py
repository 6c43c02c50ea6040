"""What makes a convolution depthwise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jax.core import ShapedArray
from jax.lax import ConvDimensionNumbers


@dataclasses.dataclass(frozen=True)
class Spatial:
    """A spatial dimension, as `ConvDimension` in the kernels has it."""

    base: int
    window: int
    stride: int
    padding: tuple[int, int]
    base_dilation: int
    window_dilation: int

    @property
    def span(self) -> int:
        """How much of the base a window covers."""
        return (self.window - 1) * self.window_dilation + 1

    @property
    def largest(self) -> int:
        """The largest of all numbers, wherever it is."""
        dilations = self.base_dilation, self.window_dilation
        ends = map(abs, self.padding)
        sizes = self.base, self.window, self.result, self.stride
        return max(*sizes, *dilations, *ends)

    @property
    def result(self) -> int:
        """The number of places of the window."""
        dilated = max((self.base - 1) * self.base_dilation + 1, 0)
        room = dilated + sum(self.padding) - max(self.span, 0)
        return max(room // self.stride + 1, 0)


@dataclasses.dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution, or the gradient of its kernel.

    The axes are batch, spatial and channel ones; those of the window have the
    one of size 1 in the place of the batch. A channel with several kernels is
    repeated for each; in the gradient of such an input, the results of
    channels side by side are summed.
    """

    dtype: str
    is_gradient: bool
    batch: int
    channels: int
    repeats: int
    summed: int
    spatial: tuple[Spatial, ...]
    base_axes: tuple[int, ...]
    window_axes: tuple[int, ...]
    result_axes: tuple[int, ...]

    @property
    def products(self) -> int:
        """The number of products in all sums."""
        sizes = [self.batch, self.channels]
        return math.prod(sizes + [s.window * s.result for s in self.spatial])

    @property
    def window(self) -> int:
        """The number of products in a sum."""
        return math.prod(s.window for s in self.spatial)

    @property
    def has_channels_last(self) -> bool:
        """Whether all axes are in XLA's own order: NHWC and HWIO."""
        count = len(self.base_axes)
        own = (count - 2, *range(count - 2), count - 1)
        return self.window_axes == own and all(
            axes == tuple(range(count))
            for axes in (self.base_axes, self.result_axes)
        )


def match(
    base: ShapedArray,
    window: ShapedArray,
    *,
    batch_group_count: int,
    dimension_numbers: ConvDimensionNumbers,
    feature_group_count: int,
    lhs_dilation: Sequence[int],
    out_sharding: object,
    padding: Sequence[tuple[int, int]],
    preferred_element_type: np.dtype[np.generic] | None,
    rhs_dilation: Sequence[int],
    window_strides: Sequence[int],
    **_: object,
) -> Depthwise | None:
    """The convolution, if it is depthwise."""
    dtype = str(base.dtype)
    preferred = str(preferred_element_type or dtype)
    lhs, rhs, out = dimension_numbers
    if (
        len(lhs) not in (3, 4)
        or {str(window.dtype), preferred} != {dtype}
        or out_sharding is not None
    ):
        return None
    batch, features = base.shape[lhs[0]], base.shape[lhs[1]]
    outputs, inputs = window.shape[rhs[0]], window.shape[rhs[1]]
    is_gradient = batch_group_count > 1
    if is_gradient:  # each channel is an element of the batch
        features, batch, groups = batch, features, batch_group_count
        lhs = (lhs[1], lhs[0], *lhs[2:])
        if inputs != batch or feature_group_count != 1:
            return None
        inputs = 1
    else:
        groups = feature_group_count
    # Of each group: one channel with several kernels, or several with one. A
    # single group of several is a product of matrices.
    if features != groups * inputs or groups not in (features, outputs):
        return None
    if groups == 1 < outputs * inputs:
        return None
    window_axes = (rhs[1], *rhs[2:], rhs[0])
    if inputs > 1:
        window_axes = (*rhs[2:], rhs[0], rhs[1])
    return Depthwise(
        dtype=dtype,
        is_gradient=is_gradient,
        batch=batch,
        channels=outputs * inputs,
        repeats=outputs // groups,
        summed=inputs,
        spatial=tuple(
            Spatial(
                *(base.shape[lhs[i + 2]], window.shape[rhs[i + 2]], stride),
                *(padding[i], lhs_dilation[i], rhs_dilation[i]),
            )
            for i, stride in enumerate(window_strides)
        ),
        base_axes=(lhs[0], *lhs[2:], lhs[1]),
        window_axes=window_axes,
        result_axes=(out[0], *out[2:], out[1]),
    )
