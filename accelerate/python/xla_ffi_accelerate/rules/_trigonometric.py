"""Sine, cosine and tangent of f32 as plain HLO.

Computed in double precision and rounded once. Every step is exact whether or
not the compiler contracts a product and a sum, or has an error far below that
of the rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from xla_ffi_accelerate.rules._elementary import (
    bits_of,
    polynomial,
    select,
    signed,
)

# Interpolated at Chebyshev nodes over t = r^2 <= (pi/4)^2, by mpmath:
# (sin(r) / r - 1) / t, relative error 2^-45, and (cos(r) - 1) / t, 2^-41.
_SINE = (
    -0.16666666666663885,
    0.008333333331078323,
    -0.00019841266916110632,
    2.7555990664728974e-06,
    -2.4805611712122475e-08,
)
_COSINE = (
    -0.49999999999963873,
    0.041666666637384386,
    -0.0013888885090262895,
    2.4799861846361453e-05,
    -2.7237108576245085e-07,
)
# pi / 2 in two parts: multiples of the first up to 2^20 times it are exact.
_HALF_PI = (1.5707963267341256, 6.077100506506192e-11)
# From 2^20 on, which is 2^3 times 2^147 of the exponent field's unit, the
# multiple is found in integers. The bits of 2 / pi, beginning with those of
# weight 2^1 at 2^20, by mpmath: floor(2^(224 - 2) / 2^3 * 2 / pi).
_HUGE = 0x49800000
_HUGE_EXPONENT = 147
_TWO_OVER_PI = 0x0517CC1B727220A94FE13ABE8FA9A6EE06DB14ACC9E21C820FF28B1D
_WORDS = tuple(
    np.uint32(_TWO_OVER_PI >> (32 * (6 - i)) & 0xFFFFFFFF) for i in range(7)
)


def _small(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """|x| < 2^20 as quadrant (its two lowest bits count), and the rest."""
    k = lax.round(x * (2 / np.pi), lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = (x - k * _HALF_PI[0]) - k * _HALF_PI[1]
    # The sum's unit is one: its lowest bits are those of k.
    quadrant = lax.bitcast_convert_type(k + 1.5 * 2**52, jnp.uint64)
    return lax.convert_element_type(quadrant, jnp.uint32), rest


def _huge(bits: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Reduces |x| >= 2^20 in the same way, from the bits of |x|."""
    shift = (bits >> 23) - np.uint32(_HUGE_EXPONENT)
    mantissa = (bits & np.uint32(0x7FFFFF)) | np.uint32(0x800000)
    row = shift >> 5
    words = []
    for i in range(4):
        word = jnp.full_like(bits, _WORDS[i + 3])
        for j in (2, 1, 0):
            word = select(row == j, _WORDS[i + j], word)
        words.append(word)
    by = shift & np.uint32(31)
    window = [
        (a << by) | ((b >> 1) >> (np.uint32(31) - by))
        for a, b in zip(words[:-1], words[1:], strict=True)
    ]
    # Their 96 bits times the mantissa, modulo 4: the highest 64 bits.
    first, second, third = (
        lax.convert_element_type(w, jnp.uint64) for w in window
    )
    m = lax.convert_element_type(mantissa, jnp.uint64)
    turns = ((m * first) << 32) + m * second + ((m * third) >> 32)
    quadrant = lax.convert_element_type(
        (turns + np.uint64(1 << 61)) >> 62, jnp.uint32
    )
    rest = turns << 2  # signed, of 2^64
    high = lax.convert_element_type(rest >> 32, jnp.uint32)
    low = lax.convert_element_type(rest, jnp.uint32)
    signed = lax.bitcast_convert_type(high, jnp.int32)
    fraction = lax.convert_element_type(signed, jnp.float64) * 2.0**-32
    fraction += lax.convert_element_type(low, jnp.float64) * 2.0**-64
    return quadrant, fraction * (np.pi / 2)


def _reduced(
    x: jax.Array, has_huge: bool
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Quadrant of |x|, sine and cosine of the rest."""
    bits = bits_of(x) & np.uint32(0x7FFFFFFF)
    size = lax.bitcast_convert_type(bits, jnp.float32)
    quadrant, rest = _small(lax.convert_element_type(size, jnp.float64))
    if has_huge:
        # Both ways give NaN for infinity and NaN; `_small` is faster.
        is_huge = (bits >= np.uint32(_HUGE)) & (bits < np.uint32(0x7F800000))
        huge = _huge(bits)
        quadrant = select(is_huge, huge[0], quadrant)
        rest = select(is_huge, huge[1], rest)
    t = rest * rest
    sine = rest + rest * (t * polynomial(t, _SINE))
    cosine = 1 + t * polynomial(t, _COSINE)
    return quadrant, sine, cosine


def sin(x: jax.Array, has_huge: bool = True) -> jax.Array:
    """Sine of f32; `has_huge`: also of 2^20 and more."""
    quadrant, sine, cosine = _reduced(x, has_huge)
    odd = (quadrant & 1) == 1
    sign = bits_of(x) ^ (quadrant << 30)
    return signed(select(odd, cosine, sine), sign)


def cos(x: jax.Array, has_huge: bool = True) -> jax.Array:
    """Cosine of f32, likewise."""
    quadrant, sine, cosine = _reduced(x, has_huge)
    odd = (quadrant & 1) == 1
    return signed(select(odd, sine, cosine), (quadrant + 1) << 30)


def tan(x: jax.Array, has_huge: bool = True) -> jax.Array:
    """Tangent of f32, likewise."""
    quadrant, sine, cosine = _reduced(x, has_huge)
    odd = (quadrant & 1) == 1
    ratio = select(odd, cosine, sine) / select(odd, sine, cosine)
    sign = bits_of(x) ^ (quadrant << 31)
    return signed(ratio, sign)


def branching(
    x: jax.Array, *, function: Callable[[jax.Array, bool], jax.Array]
) -> jax.Array:
    """Reduces huge numbers only where there is one.

    It is twice as fast, but looks at the whole array first.
    """
    # XLA's quickest look at an array. A sum of many that are not huge, too, may
    # be as large, or not a number.
    line = lax.reshape(x, (x.size,))
    found = ~(lax.dot(line, line) < 2.0**39)
    result: jax.Array = lax.cond(
        found, lambda x: function(x, True), lambda x: function(x, False), x
    )
    return result
