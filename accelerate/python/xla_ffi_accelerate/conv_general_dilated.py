"""Lowers JAX's depthwise convolutions to the kit's handlers.

Those of which XLA's order of sums is known, bit for bit, by the rule
`ConvGeneralDilated`; the others, and the gradients of kernels, sum in an order
of the kit's own.
"""

from __future__ import annotations

import functools
import math
import platform
from collections.abc import Sequence
from pathlib import Path

import jax
import jaxlib
import numpy as np
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir

from xla_ffi_accelerate import _depthwise, _jax_rules, _self_test
from xla_ffi_accelerate._depthwise import Depthwise
from xla_ffi_accelerate._jax import Primitive
from xla_ffi_accelerate._rule import Lowered, Result

# Releases of jaxlib -> whether XLA rounds a product and a sum once, together;
# None where it sums in another order. Verified on a CPU with AVX-512; its
# kernels for others may not.
_IS_FUSED = {"0.8.1": None, "0.9.2": True, "0.10.2": False, "0.12.0.1": True}
# XLA convolves fewer channels than this by a matrix product, whose order of
# sums is another one.
_MIN_CHANNELS = 17
# Break-even: for fewer products, XLA's own code is as fast as a custom call.
_MIN_PRODUCTS = 1024
# The kernels compute a vector of channels at a time.
_MIN_CLOSE_CHANNELS = 4


class _Rule:
    """What the rules have in common."""

    PARAMETERS = (_depthwise.PARAMETERS,)

    def primitive(self) -> Primitive:
        """Of JAX."""
        return _jax_rules.primitive("conv_general_dilated_p")

    def partitions(self, avals: Sequence[ShapedArray], **_: object) -> bool:
        """No: the kernel, which has no batch, would be sharded like it."""
        return False


class ConvGeneralDilated(_Rule):
    """The rule of depthwise convolutions as XLA computes them.

    Those that XLA hands to its kernels of depthwise convolutions. The gradient
    of the input, without strides, is one of them.
    """

    RESULT: Result = "exact"
    TARGET = "xla_ffi_accelerate.conv_general_dilated"

    def __init__(
        self, is_fused: bool | None = _IS_FUSED.get(jaxlib.__version__, True)
    ) -> None:
        self._is_fused = is_fused

    @property
    def VERIFIED(self) -> frozenset[str]:  # noqa: N802
        """Releases of jaxlib with which the order of the sums is known."""
        return frozenset(_IS_FUSED if _has_avx512() else ())

    def self_test(self) -> bool:
        """Whether the order is as far as known; finds out how XLA rounds."""
        random = np.random.default_rng(0)
        x = random.standard_normal((2, 6, 9, 35)).astype(np.float32)
        k = random.standard_normal((3, 3, 1, 35)).astype(np.float32)
        self._is_fused = next(
            (
                is_fused
                for is_fused in (True, False)
                if _self_test.same_bits(
                    ConvGeneralDilated(is_fused), _convolve, x, k
                )
            ),
            None,
        )
        return self._is_fused is not None

    def covers(
        self, avals: Sequence[ShapedArray], **parameters: object
    ) -> bool:
        """Whether it is such a convolution."""
        conv = _depthwise.match(avals, **parameters)  # type: ignore[arg-type]
        return conv is not None and self.computes(conv)

    def computes(self, conv: Depthwise) -> bool:
        """The same of a convolution that is depthwise."""
        return self._is_fused is not None and _is_covered(conv)

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Lowered:
        """Lowers a convolution that the handler covers."""
        conv = _match(ctx, parameters)
        return _depthwise.lower(
            self.TARGET,
            conv,
            ctx,
            *operands,
            is_fused=np.int64(self._is_fused is True),
        )


class OtherDepthwise(_Rule):
    """The rule of depthwise convolutions whose sums XLA orders otherwise.

    Those of few channels, of one spatial dimension, of f64, with a dilated
    input, as the gradient of the input has where there are strides.
    """

    RESULT: Result = "close"
    TARGET = "xla_ffi_accelerate.conv_general_dilated"

    def __init__(self, exact: ConvGeneralDilated) -> None:
        self._exact = exact

    def covers(
        self, avals: Sequence[ShapedArray], **parameters: object
    ) -> bool:
        """Whether it is such a convolution."""
        conv = _depthwise.match(avals, **parameters)  # type: ignore[arg-type]
        return (
            conv is not None
            and not conv.is_gradient
            and not self._exact.computes(conv)
            and _is_worthwhile(conv)
        )

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Lowered:
        """Lowers a convolution that the handler covers."""
        conv = _match(ctx, parameters)
        return _depthwise.lower(
            self.TARGET, conv, ctx, *operands, is_fused=np.int64(True)
        )


class KernelGradient(_Rule):
    """The rule of a depthwise convolution's gradient by its kernel.

    XLA computes that for each pair of channels, and throws most away.
    """

    RESULT: Result = "close"
    TARGET = "xla_ffi_accelerate.conv_general_dilated_kernel_gradient"

    def covers(
        self, avals: Sequence[ShapedArray], **parameters: object
    ) -> bool:
        """Whether it is such a gradient."""
        conv = _depthwise.match(avals, **parameters)  # type: ignore[arg-type]
        return conv is not None and conv.is_gradient and _is_worthwhile(conv)

    def lower(
        self,
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        **parameters: object,
    ) -> Lowered:
        """Lowers a gradient that the handler covers."""
        return _depthwise.lower(
            self.TARGET, _match(ctx, parameters), ctx, *operands
        )


def _is_worthwhile(conv: Depthwise) -> bool:
    return (
        conv.dtype in ("float32", "float64")
        and conv.channels >= _MIN_CLOSE_CHANNELS
        and conv.products >= _MIN_PRODUCTS
    )


def _is_covered(conv: Depthwise) -> bool:
    return (
        not conv.is_gradient
        and conv.dtype == "float32"
        and len(conv.spatial) == 2
        and conv.channels >= _MIN_CHANNELS
        and conv.products >= _MIN_PRODUCTS
        and math.prod(s.window for s in conv.spatial) > 1
        and all(
            s.base_dilation == 1 and s.span <= s.base and 1 < s.result <= s.base
            for s in conv.spatial
        )
    )


def _match(
    ctx: LoweringRuleContext, parameters: dict[str, object]
) -> Depthwise:
    conv = _depthwise.match(ctx.avals_in, **parameters)  # type: ignore[arg-type]
    assert conv is not None  # what is covered matches
    return conv


def _convolve(x: jax.Array, k: jax.Array) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x,
        k,
        (1, 2),
        ((1, 1), (0, 1)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


@functools.cache
def _has_avx512() -> bool:
    if platform.machine() != "x86_64":
        return False
    try:
        return " avx512f " in Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
