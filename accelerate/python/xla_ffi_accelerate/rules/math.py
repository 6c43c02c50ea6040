"""Elementwise functions as plain HLO that XLA vectorizes.

XLA's own code calls the C library's function for each element. The results are
close: all but 1 in some thousands are the nearest number.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray

from xla_ffi_accelerate._rule import Reason, Rule
from xla_ffi_accelerate.rules import _elementary, _trigonometric
from xla_ffi_kit import extend

_DTYPES = ("float32", "bfloat16", "float16")

# From 0.12 on XLA vectorizes sine, cosine and tangent itself where they are
# reduced, though not elsewhere; a rule does not see where they are.
_XLA_REDUCES_SINES = jax.__version_info__ >= (0, 11)


def _covers(
    *avals: ShapedArray,
    min_size: int,
    is_sine: bool,
    is_static: bool,
    accuracy: object = None,
) -> Reason:
    shape = avals[0].shape
    if is_sine and _XLA_REDUCES_SINES:
        return "this XLA vectorizes the function itself where it is reduced"
    if accuracy is not None:
        return "an accuracy is asked for"
    if any(str(aval.dtype) not in _DTYPES for aval in avals):
        return "only floats of at most 32 bits are computed faster"
    if any(aval.shape != shape for aval in avals):
        return "XLA makes roots and products of scalar exponents"
    if not extend.is_static(shape):
        return "its shape is symbolic" if is_static else None
    if math.prod(shape) < min_size:
        return f"XLA is as fast for fewer than {min_size} elements"
    return None


def _rounded(
    *arrays: jax.Array, function: Callable[..., jax.Array], **_: object
) -> jax.Array:
    wide = [lax.convert_element_type(x, jnp.float32) for x in arrays]
    return lax.convert_element_type(function(*wide), arrays[0].dtype)


def _rule(
    name: str,
    function: Callable[..., jax.Array],
    min_size: int,
    is_sine: bool = False,
    branches: bool = False,
) -> Rule:
    """The rule of a function.

    Its break-even size: XLA runs programs in the caller's thread if it counts
    few operations in them, and counts one for the C library's function; below
    this size, starting its threads takes longer.
    """
    return Rule(
        f"jax.lax.{name}_p",
        (frozenset(), frozenset({"accuracy"})),
        functools.partial(
            _covers, min_size=min_size, is_sine=is_sine, is_static=branches
        ),
        functools.partial(_rounded, function=function),
        exact=False,
        # Devices that share an array would have to agree on a branch.
        partitions=not branches,
        x64=True,
    )


def _sine(name: str, function: Callable[..., jax.Array]) -> tuple[Rule, Rule]:
    """Computes it with a branch, or without one where none is possible."""
    branching = functools.partial(_trigonometric.branching, function=function)
    return (
        _rule(name, branching, 65536, is_sine=True, branches=True),
        _rule(name, function, 65536, is_sine=True),
    )


RULES = (
    _rule("acos", _elementary.acos, 4096),
    _rule("asin", _elementary.asin, 4096),
    _rule("atan2", _elementary.atan2, 16384),
    _rule("cbrt", _elementary.cbrt, 32768),
    _rule("pow", _elementary.pow, 32768),
    *_sine("cos", _trigonometric.cos),
    *_sine("sin", _trigonometric.sin),
    *_sine("tan", _trigonometric.tan),
)
