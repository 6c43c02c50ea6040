"""Roots, powers and inverse trigonometric functions of f32 as plain HLO.

Computed in double precision and rounded once. The polynomials interpolate at
Chebyshev nodes of the interval that is named; mpmath has solved for them.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# (asin(s) / s - 1) / t over t = s^2 <= 1/4, error 2^-40.
_ARCSINE = (
    0.16666666666738633,
    0.07499999953429712,
    0.044642906474584965,
    0.030379945210024933,
    0.022412417726695433,
    0.016902683886393575,
    0.01686409027396012,
    0.001067506315036312,
    0.02834674523183333,
)
# (atan(s) / s - 1) / t over t = s^2 <= 1, error 2^-36.
_ARCTANGENT = (
    -0.3333333333230858,
    0.1999999965269345,
    -0.14285694570640292,
    0.11110666303625419,
    -0.09085624177887072,
    0.07654295472644398,
    -0.06487062356606563,
    0.052943908816199266,
    -0.038767022568525905,
    0.02324837369843582,
    -0.010257166271499646,
    0.002875485609943425,
    -0.0003778858076662609,
)
# 2 atanh(s) / (s log(2)) over t = s^2 <= ((sqrt(2) - 1) / (sqrt(2) + 1))^2,
# relative error 2^-45.
_LOGARITHM = (
    2.88539008177785,
    0.9617966941132127,
    0.5770779423594591,
    0.412209256786155,
    0.3199053739227617,
    0.2829066165906811,
)
# (2^f - 1) / f over |f| <= 0.501, error 2^-38.
_EXPONENTIAL = (
    0.6931471805567823,
    0.24022650695888154,
    0.05550410906806735,
    0.009618129135569293,
    0.0013333477833756698,
    0.00015403474743184252,
    1.530390509058455e-05,
    1.3250947111387495e-06,
)
_SIGN = np.uint32(0x80000000)
_SQRT_HALF = np.uint32(0x3F3504F3)


def polynomial(t: jax.Array, coefficients: Sequence[float]) -> jax.Array:
    """Evaluates a polynomial, lowest power first, by Horner's rule."""
    sum_ = jnp.full_like(t, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        sum_ = sum_ * t + coefficient
    return sum_


def select(
    condition: jax.Array,
    x: jax.Array | np.uint32 | float,
    y: jax.Array | np.uint32 | float,
) -> jax.Array:
    """`jnp.where`, which symbolic shapes do not pass in this mode."""
    like = x if isinstance(x, jax.Array) else y
    if not isinstance(like, jax.Array):
        like = lax.convert_element_type(condition, jnp.float64)
    x, y = (
        v if isinstance(v, jax.Array) else lax.full_like(like, v)
        for v in (x, y)
    )
    return lax.select(condition, x, y)


def _double(x: jax.Array) -> jax.Array:
    return lax.convert_element_type(x, jnp.float64)


def bits_of(x: jax.Array) -> jax.Array:
    """Returns the bits of an f32."""
    return lax.bitcast_convert_type(x, jnp.uint32)


def signed(magnitude: jax.Array, sign: jax.Array) -> jax.Array:
    """The f32 of a double, its sign flipped by the highest bit of `sign`."""
    y = lax.convert_element_type(magnitude, jnp.float32)
    return lax.bitcast_convert_type(bits_of(y) ^ (sign & _SIGN), jnp.float32)


def _arcsine(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Whether |x| is above 1/2, and asin(|x|) or else asin of its half angle.

    pi/2 - asin(s) = 2 asin(sqrt((1 - s) / 2)).
    """
    size = jnp.abs(_double(x))
    above = size > 0.5
    t = select(above, 0.5 - 0.5 * size, size * size)
    s = select(above, lax.sqrt(t), size)
    return above, s + s * (t * polynomial(t, _ARCSINE))


def asin(x: jax.Array) -> jax.Array:
    """Arcsine of f32; NaN beyond 1."""
    above, angle = _arcsine(x)
    return signed(select(above, np.pi / 2 - 2 * angle, angle), bits_of(x))


def acos(x: jax.Array) -> jax.Array:
    """Arccosine of f32; NaN beyond 1."""
    above, angle = _arcsine(x)
    negative = x < 0
    near = select(negative, np.pi - 2 * angle, 2 * angle)
    far = np.pi / 2 - select(negative, -angle, angle)
    return lax.convert_element_type(select(above, near, far), jnp.float32)


def atan2(y: jax.Array, x: jax.Array) -> jax.Array:
    """Angle of (x, y) of f32, between -pi and pi."""
    up, right = jnp.abs(_double(y)), jnp.abs(_double(x))
    least, most = lax.min(up, right), lax.max(up, right)
    # The angle of 0 / 0 is 0, and that of infinity / infinity is pi/4.
    s = select(least == most, select(most == 0, 0.0, 1.0), least / most)
    t = s * s
    angle = s + s * (t * polynomial(t, _ARCTANGENT))
    angle = select(up > right, np.pi / 2 - angle, angle)
    left = bits_of(x) >= _SIGN
    return signed(select(left, np.pi - angle, angle), bits_of(y))


def cbrt(x: jax.Array) -> jax.Array:
    """Cube root of f32."""
    size = jnp.abs(x)
    exact = _double(size)
    # A third of the bits is about a third of the logarithm: 1 / cbrt(x) within
    # 6 %, and twice an expansion of (1 - e)^(-1/3).
    third = lax.convert_element_type(
        lax.convert_element_type(
            lax.bitcast_convert_type(size, jnp.int32), jnp.float32
        )
        * np.float32(1 / 3),
        jnp.int32,
    )
    guess = lax.bitcast_convert_type(np.int32(0x54A2FA8C) - third, jnp.float32)
    root = _double(guess)
    for _ in range(2):
        e = 1 - exact * root * (root * root)
        root += root * (e * polynomial(e, (1 / 3, 2 / 9, 14 / 81)))
    # Zero and infinity keep their value.
    is_usual = (size > 0) & (size < np.inf)
    return signed(select(is_usual, exact * root * root, exact), bits_of(x))


def _log2(size: jax.Array) -> jax.Array:
    """log2 of a positive f32 in double precision, relative error 2^-44."""
    bits = bits_of(size)
    exponent = (bits - _SQRT_HALF) & np.uint32(0xFF800000)
    m = _double(lax.bitcast_convert_type(bits - exponent, jnp.float32))
    n = lax.bitcast_convert_type(exponent, jnp.int32) >> 23
    # A quotient with two uses XLA would keep in memory; a product it repeats.
    s = (m - 1) * (1 / (m + 1))
    return _double(n) + s * polynomial(s * s, _LOGARITHM)


def _exp2(v: jax.Array) -> jax.Array:
    """2^v of |v| <= 1000, relative error 2^-38."""
    n = lax.round(v, lax.RoundingMethod.TO_NEAREST_EVEN)
    f = v - n
    # The sum's unit is one: its lowest bits are those of n + 1023.
    exponent = lax.bitcast_convert_type(n + (1.5 * 2**52 + 1023), jnp.uint64)
    scale = lax.bitcast_convert_type(exponent << 52, jnp.float64)
    return (1 + f * polynomial(f, _EXPONENTIAL)) * scale


def pow(x: jax.Array, y: jax.Array) -> jax.Array:  # noqa: A001
    """x to the power of y, of f32, with the exceptions of IEEE 754."""
    base, exponent = bits_of(jnp.abs(x)), _double(y)
    # For zero and infinity it is -127 and 128, and has to become infinite.
    log = _log2(jnp.abs(x))
    is_usual = base - np.uint32(0x00800000) < np.uint32(0x7F000000)
    log = select(is_usual, log, log * 1e300)
    power = _exp2(lax.clamp(-300.0, exponent * log, 300.0))
    half = exponent * 0.5
    to_even = lax.RoundingMethod.TO_NEAREST_EVEN
    is_integer = lax.round(exponent, to_even) == exponent
    is_odd = is_integer & (lax.round(half, to_even) != half)
    is_nan = (x < 0) & (x > -np.inf) & ~is_integer
    power = select((x != x) | is_nan, np.nan, power)
    is_one = (exponent == 0) | (x == 1) | ((x == -1) & (jnp.abs(y) == np.inf))
    power = select(is_one, 1.0, power)
    return signed(power, select(is_odd, bits_of(x), 0))
