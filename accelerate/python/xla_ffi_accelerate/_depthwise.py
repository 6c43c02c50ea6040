"""Depthwise convolutions: what there is of them, and calls of the handlers.

A convolution is depthwise if each channel has a kernel of its own. Its
gradients are convolutions too: that of the input depthwise again, that of the
kernel one in which the channels are the batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import jax
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir
from jax.lax import ConvDimensionNumbers

from xla_ffi_accelerate import _plain
from xla_ffi_accelerate._rule import Lowered
from xla_ffi_accelerate.libraries import CPU_LIBRARY
from xla_ffi_kit import lowering

Axes = tuple[int, ...]

PARAMETERS = frozenset(
    {
        "batch_group_count",
        "dimension_numbers",
        "feature_group_count",
        "lhs_dilation",
        "out_sharding",
        "padding",
        "precision",
        "preferred_element_type",
        "rhs_dilation",
        "window_strides",
    }
)


@dataclasses.dataclass(frozen=True)
class Spatial:
    """A spatial dimension, as `ConvDimension` in the kernels has it."""

    base: int
    window: int
    result: int
    stride: int
    padding: int
    base_dilation: int
    window_dilation: int

    @property
    def span(self) -> int:
        """How many elements of the base a window spans."""
        return (self.window - 1) * self.window_dilation + 1


@dataclasses.dataclass(frozen=True)
class Depthwise:
    """A depthwise convolution, or the gradient of its kernel.

    Attributes:
      dtype: of operands and result, by name.
      is_gradient: whether it is that.
      batch: how many images, say, are convolved.
      channels: how many there are.
      spatial: one or two dimensions.
      base_axes: batch, spatial and channel axes of the first operand.
      window_axes: the same of the second; without a batch the one of size 1.
      result_axes: the same of the result.
    """

    dtype: str
    is_gradient: bool
    batch: int
    channels: int
    spatial: tuple[Spatial, ...]
    base_axes: Axes
    window_axes: Axes
    result_axes: Axes

    @property
    def products(self) -> int:
        """How many products are summed."""
        sizes = [self.batch, self.channels]
        sizes += [s.window * s.result for s in self.spatial]
        return math.prod(sizes)


def match(
    avals: Sequence[ShapedArray],
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
    """What `conv_general_dilated_p` does, if that is depthwise."""
    base, window = avals
    dtype = str(base.dtype)
    # To NumPy, None is float64.
    is_dtype_kept = (
        preferred_element_type is None or str(preferred_element_type) == dtype
    )
    lhs, rhs, out = dimension_numbers
    if (
        len(lhs) not in (3, 4)
        or str(window.dtype) != dtype
        or not is_dtype_kept
        or out_sharding is not None
    ):
        return None
    batch, features = base.shape[lhs[0]], base.shape[lhs[1]]
    outputs, inputs = window.shape[rhs[0]], window.shape[rhs[1]]
    is_gradient = batch_group_count > 1
    if is_gradient:  # each channel is an element of the batch
        channels, batch, groups = batch, features, batch_group_count
        lhs = (lhs[1], lhs[0], *lhs[2:])
        is_one_each = inputs == batch and feature_group_count == 1
    else:
        channels, groups = features, feature_group_count
        is_one_each = inputs == 1
    if not (is_one_each and groups == channels == outputs):
        return None
    spatial = tuple(
        _spatial(base.shape[lhs[i + 2]], window.shape[rhs[i + 2]], *geometry)
        for i, geometry in enumerate(
            zip(
                window_strides, padding, lhs_dilation, rhs_dilation, strict=True
            )
        )
    )
    return Depthwise(
        dtype=dtype,
        is_gradient=is_gradient,
        batch=batch,
        channels=channels,
        spatial=spatial,
        base_axes=(lhs[0], *lhs[2:], lhs[1]),
        window_axes=(rhs[1], *rhs[2:], rhs[0]),
        result_axes=(out[0], *out[2:], out[1]),
    )


def _spatial(
    base: int,
    window: int,
    stride: int,
    padding: tuple[int, int],
    base_dilation: int,
    window_dilation: int,
) -> Spatial:
    dilated = max((base - 1) * base_dilation + 1, 0)
    span = max((window - 1) * window_dilation + 1, 0)
    places = (dilated + sum(padding) - span) // stride + 1
    return Spatial(
        base=base,
        window=window,
        result=max(places, 0),
        stride=stride,
        padding=padding[0],
        base_dilation=base_dilation,
        window_dilation=window_dilation,
    )


def lower(
    target: str,
    conv: Depthwise,
    ctx: LoweringRuleContext,
    *operands: ir.Value,
    **attributes: object,
) -> Lowered:
    """Lowers to the handler `target` of the kit's CPU library."""
    lowering.register(CPU_LIBRARY, target)
    axes = conv.spatial
    if len(axes) == 1:  # one row
        axes = (Spatial(1, 1, 1, 1, 0, 1, 1), *axes)

    def geometry(name: str) -> np.ndarray[Axes, np.dtype[np.int64]]:
        return np.array([getattr(s, name) for s in axes], np.int64)

    def call(base: jax.Array, window: jax.Array) -> list[jax.Array]:
        base = jax.lax.transpose(base, conv.base_axes)
        window = jax.lax.transpose(window, conv.window_axes)
        lead = [conv.batch] if conv.is_gradient else []
        windows = [*lead, *(s.window for s in axes), conv.channels]
        lead = [] if conv.is_gradient else [conv.batch]
        results = [*lead, *(s.result for s in axes), conv.channels]
        bases = [conv.batch, *(s.base for s in axes), conv.channels]
        result = jax.ffi.ffi_call(
            target, jax.ShapeDtypeStruct(tuple(results), base.dtype)
        )(
            base.reshape(bases),
            window.reshape(windows),
            strides=geometry("stride"),
            padding=geometry("padding"),
            base_dilation=geometry("base_dilation"),
            window_dilation=geometry("window_dilation"),
            **attributes,
        )
        shape = [1 if conv.is_gradient else conv.batch]
        shape += [s.result for s in conv.spatial]
        result = result.reshape([*shape, conv.channels])
        return [jax.lax.transpose(result, tuple(np.argsort(conv.result_axes)))]

    return _plain.lower(call, ctx, *operands)
