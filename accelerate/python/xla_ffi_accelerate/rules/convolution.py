"""Depthwise convolutions: each channel has a kernel of its own.

Their gradients are convolutions too: that of the input is depthwise again, and
in that of the kernel the channels are the batch. Where XLA's order of sums is
known the results are exact; all others sum in an order of the kit's own.

XLA convolves few channels by products of matrices with as few columns. Those
convolutions are written out.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.lax import ConvDimensionNumbers

from xla_ffi_accelerate import (
    _break_even,
    _comparisons,
    _dtypes,
    _loops,
)
from xla_ffi_accelerate._pads import Pad
from xla_ffi_accelerate._rule import Reason, Rule, params
from xla_ffi_accelerate.libraries import LIBRARIES
from xla_ffi_accelerate.rules import small
from xla_ffi_kit import FfiOp

# XLA convolves fewer channels than this by a matrix product, whose order of
# sums is another one.
_MIN_CHANNELS = 17
# The kernels compute a vector of channels at a time.
_MIN_CLOSE_CHANNELS = 4
# In a loop or branch, XLA makes one fused operation of layouts that are not its
# own; a call and transposes are faster from so many products in a sum on.
_MIN_WINDOW_NESTED = 49
# Written out, each product of a sum is an operation, which has to be compiled.
_MAX_WRITTEN_OUT = 64


_op, _gradient_op = (
    FfiOp(
        f"xla_ffi_accelerate.conv_general_dilated{suffix}",
        results=lambda x, _, *, shape, **__: jax.ShapeDtypeStruct(
            shape, x.dtype
        ),
        libraries=LIBRARIES,
        attributes={"shape": None},
    )
    for suffix in ("", "_kernel_gradient")
)


@dataclasses.dataclass(frozen=True)
class _Spatial:
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
    def result(self) -> int:
        """The number of places of the window."""
        dilated = max((self.base - 1) * self.base_dilation + 1, 0)
        room = dilated + sum(self.padding) - max(self.span, 0)
        return max(room // self.stride + 1, 0)


@dataclasses.dataclass(frozen=True)
class _Depthwise:
    """A depthwise convolution, or the gradient of its kernel.

    The axes are batch, spatial and channel ones; those of the window have the
    one of size 1 in the place of the batch.
    """

    dtype: str
    is_gradient: bool
    batch: int
    channels: int
    spatial: tuple[_Spatial, ...]
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


def _match(
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
) -> _Depthwise | None:
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
        channels, batch, groups = batch, features, batch_group_count
        lhs = (lhs[1], lhs[0], *lhs[2:])
        is_one_each = inputs == batch and feature_group_count == 1
    else:
        channels, groups = features, feature_group_count
        is_one_each = inputs == 1
    if not (is_one_each and groups == channels == outputs):
        return None
    return _Depthwise(
        dtype=dtype,
        is_gradient=is_gradient,
        batch=batch,
        channels=channels,
        spatial=tuple(
            _Spatial(
                *(base.shape[lhs[i + 2]], window.shape[rhs[i + 2]], stride),
                *(padding[i], lhs_dilation[i], rhs_dilation[i]),
            )
            for i, stride in enumerate(window_strides)
        ),
        base_axes=(lhs[0], *lhs[2:], lhs[1]),
        window_axes=(rhs[1], *rhs[2:], rhs[0]),
        result_axes=(out[0], *out[2:], out[1]),
    )


def _matched(
    base: jax.Array, window: jax.Array, parameters: dict[str, object]
) -> _Depthwise:
    """The convolution of a rule that covers it."""
    conv = _match(jax.typeof(base), jax.typeof(window), **parameters)  # type: ignore[arg-type]
    assert conv is not None
    return conv


def _why_not_exact(conv: _Depthwise) -> Reason:
    if conv.is_gradient:
        return "XLA's order of the sums of a kernel's gradient is not known"
    if conv.dtype != "float32" or len(conv.spatial) != 2:
        return "XLA's order is known for f32 in two spatial dimensions"
    if conv.channels < _MIN_CHANNELS or conv.window <= 1:
        return (
            f"XLA multiplies matrices for fewer than {_MIN_CHANNELS} channels"
        )
    if any(
        s.base_dilation != 1 or s.span > s.base or not 1 < s.result <= s.base
        for s in conv.spatial
    ):
        return "XLA convolves otherwise with this dilation or padding"
    if not conv.has_channels_last and _loops.nested():
        return "in a loop or a branch, XLA convolves this layout otherwise"
    return _break_even.unless_worth(
        *("depthwise convolution", conv.products, "products")
    )


def _why_not_close(conv: _Depthwise, is_gradient: bool) -> Reason:
    if conv.is_gradient != is_gradient:
        kind = "" if is_gradient else "not "
        return f"another rule is for what is {kind}a kernel's gradient"
    is_own = is_gradient or conv.has_channels_last
    if not is_own and _loops.nested():
        least = _break_even.at_least(_MIN_WINDOW_NESTED)
        channels = _break_even.at_least(_MIN_CHANNELS)
        if conv.window < least or conv.channels < channels:
            return (
                "in a loop or a branch, XLA is as fast with this layout for "
                f"fewer than {least} products in a sum or {channels} channels"
            )
    return (
        _dtypes.unless_in(_dtypes.WIDE, conv.dtype)
        or _break_even.unless_at_least(
            *(_MIN_CLOSE_CHANNELS, conv.channels, "channels")
        )
        or _break_even.unless_worth(
            *("depthwise convolution", conv.products, "products")
        )
    )


def _why_not_written_out(conv: _Depthwise) -> Reason:
    if conv.is_gradient or conv.channels >= _MIN_CLOSE_CHANNELS:
        return f"it is written out for up to {_MIN_CLOSE_CHANNELS - 1} channels"
    if not 1 < conv.window <= _MAX_WRITTEN_OUT:
        return (
            f"it is written out for 2 to {_MAX_WRITTEN_OUT} products in a sum"
        )
    if any(s.base_dilation != 1 or s.result < 1 for s in conv.spatial):
        return "it is written out for bases without dilation"
    return _dtypes.unless_in(_dtypes.WIDE, conv.dtype)


def _write_out(
    base: jax.Array, window: jax.Array, **parameters: object
) -> jax.Array:
    conv = _matched(base, window, parameters)
    axes = conv.spatial
    images = jax.lax.pad(
        jax.lax.transpose(base, conv.base_axes),
        base.dtype.type(0),
        [(0, 0, 0), *((*s.padding, 0) for s in axes), (0, 0, 0)],
    )
    weights = jax.lax.transpose(window, conv.window_axes)
    weights = weights.reshape(-1, conv.channels)
    shape = (conv.batch, *(s.result for s in axes), conv.channels)
    strides = (1, *(s.stride for s in axes), 1)
    result = jax.lax.full(shape, 0, base.dtype)
    places = itertools.product(*(range(s.window) for s in axes))
    for number, place in enumerate(places):
        start, end = [0], [conv.batch]
        for i, s in zip(place, axes, strict=True):
            start.append(i * s.window_dilation)
            end.append(start[-1] + (s.result - 1) * s.stride + 1)
        here = jax.lax.slice(
            images, (*start, 0), (*end, conv.channels), strides
        )
        weight = jax.lax.index_in_dim(weights, number, keepdims=False)
        wide = jax.lax.broadcast_in_dim(weight, shape, (len(shape) - 1,))
        result = result + here * wide
    return jax.lax.transpose(result, np.argsort(conv.result_axes))


def _convolve(
    base: jax.Array,
    window: jax.Array,
    *,
    op: FfiOp[jax.Array],
    is_fused: int | None = None,
    **parameters: object,
) -> jax.Array:
    conv = _matched(base, window, parameters)
    attributes: dict[str, Any] = {}
    if is_fused is not None:
        attributes["is_fused"] = is_fused
    axes = conv.spatial
    if len(axes) == 1:  # one row
        axes = (_Spatial(1, 1, 1, (0, 0), 1, 1), *axes)
    images, kernels = [conv.batch], list[int]()
    if conv.is_gradient:
        images, kernels = kernels, images
    result = op(
        jax.lax.transpose(base, conv.base_axes).reshape(
            [conv.batch, *(s.base for s in axes), conv.channels]
        ),
        jax.lax.transpose(window, conv.window_axes).reshape(
            [*kernels, *(s.window for s in axes), conv.channels]
        ),
        strides=tuple(s.stride for s in axes),
        padding=tuple(s.padding[0] for s in axes),
        base_dilation=tuple(s.base_dilation for s in axes),
        window_dilation=tuple(s.window_dilation for s in axes),
        shape=(*images, *(s.result for s in axes), conv.channels),
        **attributes,
    )
    shape = [*(images or [1]), *(s.result for s in conv.spatial), conv.channels]
    back = tuple(np.argsort(conv.result_axes))
    return jax.lax.transpose(result.reshape(shape), back)


def _covers(
    *avals: ShapedArray,
    why_not: Callable[[_Depthwise], Reason],
    **parameters: object,
) -> Reason:
    conv = _match(*avals, **parameters)  # type: ignore[arg-type]
    return why_not(conv) if conv else "the convolution is not depthwise"


def _covers_padded(
    pad: Pad,
    base: ShapedArray,
    window: ShapedArray,
    *,
    dimension_numbers: ConvDimensionNumbers,
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    **parameters: object,
) -> Reason:
    """As `_covers`, of the convolution that XLA folds the pad into."""
    axes = dimension_numbers.lhs_spec[2:]
    return _covers(
        *(ShapedArray(pad.shape, base.dtype), window),
        why_not=_why_not_exact,
        dimension_numbers=dimension_numbers,
        padding=[
            (low + pad.low[axis], high + pad.high[axis])
            for axis, (low, high) in zip(axes, padding, strict=True)
        ],
        lhs_dilation=[
            n * (1 + pad.interior[axis])
            for axis, n in zip(axes, lhs_dilation, strict=True)
        ],
        **parameters,
    )


_PRIMITIVE = "jax.lax.conv_general_dilated_p"
_PARAMS = params(
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
)


def _rule(
    why_not: Callable[[_Depthwise], Reason],
    op: FfiOp[jax.Array] = _op,
    **given: int,
) -> Rule:
    is_exact = why_not is _why_not_exact
    return Rule(
        _PRIMITIVE,
        _PARAMS,
        functools.partial(_covers, why_not=why_not),
        functools.partial(_convolve, op=op, **given),  # type: ignore[arg-type]
        exact=is_exact,
        padded=_covers_padded if is_exact else None,
        target=op.name,
        test=_comparisons.CONVOLVED if is_exact else None,
    )


# Covers the convolutions that XLA passes to its depthwise kernels. The gradient
# of the input, without strides, is one of them.
EXACT = _rule(_why_not_exact)
# Covers convolutions of few channels, of one spatial dimension, of f64, and
# with a dilated input, as the gradient of the input has if there are strides.
OTHER = _rule(functools.partial(_why_not_close, is_gradient=False), is_fused=1)
# XLA computes it for each pair of channels, and discards most of that.
KERNEL_GRADIENT = _rule(
    functools.partial(_why_not_close, is_gradient=True), _gradient_op
)
FEW_CHANNELS = small.rule(
    _PRIMITIVE,
    _PARAMS,
    functools.partial(_covers, why_not=_why_not_written_out),
    _write_out,
    in_loops=False,
)
