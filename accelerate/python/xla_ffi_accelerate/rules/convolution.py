"""Depthwise convolutions: each channel has a kernel of its own, or several.

Their gradients are convolutions too: that of the input is depthwise again, and
in that of the kernel the channels are the batch. Where XLA's order of sums is
known the results are exact; all others sum in an order of the kit's own.

XLA convolves few channels by products of matrices with as few columns. Those
convolutions are written out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
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
from xla_ffi_accelerate.rules._depthwise import Depthwise, Spatial, match
from xla_ffi_kit import FfiOp

# XLA convolves fewer channels than this by a matrix product, whose order of
# sums is another one.
_MIN_CHANNELS = 17
# The kernels compute a vector of channels at a time.
_MIN_CLOSE_CHANNELS = 4
# XLA convolves a channel with many kernels by a product of matrices.
_MAX_REPEATS = 16
# In a loop or branch, XLA makes one fused operation of layouts that are not its
# own; a call and transposes are faster from so many products in a sum on.
_MIN_WINDOW_NESTED = 49
_MAX_SIZE = 2**30  # kMaxConvSize
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


def _matched(
    base: jax.Array, window: jax.Array, parameters: dict[str, object]
) -> Depthwise:
    """The convolution of a rule that covers it."""
    conv = match(jax.typeof(base), jax.typeof(window), **parameters)  # type: ignore[arg-type]
    assert conv is not None
    return conv


def _images(base: jax.Array, conv: Depthwise) -> jax.Array:
    """The base, channels last, each as often as it has kernels."""
    images = jax.lax.transpose(base, conv.base_axes)
    return images if conv.repeats == 1 else jnp.repeat(images, conv.repeats, -1)


def _result(y: jax.Array, conv: Depthwise) -> jax.Array:
    """What is computed channels last, in the order of the result's axes."""
    if conv.summed > 1:
        y = y.reshape(*y.shape[:-1], -1, conv.summed).sum(-1)
    return jax.lax.transpose(y, np.argsort(conv.result_axes))


def _why_not_exact(conv: Depthwise) -> Reason:
    if conv.repeats > 1 or conv.summed > 1:
        return "XLA's order is known for channels with one kernel"
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


def _why_not_close(conv: Depthwise, is_gradient: bool) -> Reason:
    if conv.is_gradient != is_gradient:
        kind = "" if is_gradient else "not "
        return f"another rule is for what is {kind}a kernel's gradient"
    if not is_gradient and conv.repeats > _MAX_REPEATS:
        return f"XLA is as fast for more than {_MAX_REPEATS} kernels a channel"
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


def _why_not_written_out(conv: Depthwise) -> Reason:
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
        _images(base, conv),
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
    return _result(result, conv)


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
        axes = (Spatial(1, 1, 1, (0, 0), 1, 1), *axes)
    images, kernels = [conv.batch], list[int]()
    if conv.is_gradient:
        images, kernels = kernels, images
    result = op(
        _images(base, conv).reshape(
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
    return _result(result.reshape(shape), conv)


def _covers(
    *avals: ShapedArray,
    why_not: Callable[[Depthwise], Reason],
    **parameters: object,
) -> Reason:
    conv = match(*avals, **parameters)  # type: ignore[arg-type]
    if conv is None:
        return "the convolution is not depthwise"
    if max(s.largest for s in conv.spatial) > _MAX_SIZE:
        return f"a size of the window is larger than {_MAX_SIZE}"
    if min(s.base for s in conv.spatial) < 1:
        return "the base is empty"
    return why_not(conv)


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
    why_not: Callable[[Depthwise], Reason],
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
