"""RMS normalization and its derivatives in plain JAX.

Complex numbers, which no handler takes, run the forward, and its derivatives
are JAX's.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def widen(x: jax.Array) -> jax.Array:
    """Converts to the type that kernels compute in: f32 for 16-bit floats."""
    return x.astype(jnp.float32) if x.dtype.itemsize <= 2 else x


def of_rows(weight: jax.Array, x: jax.Array) -> jax.Array:
    """The weight, widened, with x's rank, which JAX may be told not to add."""
    return jnp.expand_dims(widen(weight), range(x.ndim - weight.ndim))


def rounded(x: jax.Array) -> jax.Array:
    """`x` as it is stored: XLA would keep a wider sum of 16-bit floats."""
    if jnp.iscomplexobj(x) or x.dtype.itemsize > 2:
        return x
    info = jnp.finfo(x.dtype)
    return jax.lax.reduce_precision(x, info.nexp, info.nmant)


def finish(y: jax.Array, h: jax.Array, weight: jax.Array | None) -> jax.Array:
    """Multiplies the normalized h by the weight and rounds it once."""
    y = widen(y)
    if weight is not None:
        y = y * of_rows(weight, y)
    return y.astype(h.dtype)


def forward_with_scale(
    x: jax.Array,
    weight: jax.Array | None = None,
    residual: jax.Array | None = None,
    *,
    eps: float,
) -> tuple[jax.Array, ...]:
    """Returns y, the sum if there is a residual, and the scale of each row."""
    h = x if residual is None else rounded(x + residual)
    wide = widen(h)
    power = jnp.mean(jnp.real(wide * jnp.conj(wide)), axis=-1)
    scale = jax.lax.rsqrt(power + jnp.asarray(eps, power.dtype))
    y = finish(wide * scale[..., None].astype(wide.dtype), h, weight)
    return (y, scale) if residual is None else (y, h, scale)


def forward(
    x: jax.Array,
    weight: jax.Array | None = None,
    residual: jax.Array | None = None,
    *,
    eps: float,
) -> jax.Array | tuple[jax.Array, ...]:
    """Returns y, or y and the sum if there is a residual."""
    results = forward_with_scale(x, weight, residual, eps=eps)[:-1]
    return results if len(results) > 1 else results[0]


def backward(
    x: jax.Array,
    ct: jax.Array,
    scale: jax.Array | None = None,
    *,
    eps: float | None = None,
) -> jax.Array:
    """The cotangent of x, from that of y, and the scale or eps."""
    if scale is None:
        assert eps is not None
        scale = forward_with_scale(x, eps=eps)[-1]
    return _backward(x, widen(ct), scale).astype(x.dtype)


def backward_with_weight(
    x: jax.Array,
    ct: jax.Array,
    scale: jax.Array,
    weight: jax.Array,
    ct_sum: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """The cotangents of x and weight, from those of y and the sum."""
    dx = _backward(x, of_rows(weight, x) * widen(ct), scale)
    if ct_sum is not None:
        dx = dx + widen(ct_sum)
    return dx.astype(x.dtype), weight_backward(x, ct, scale)


def _backward(x: jax.Array, g: jax.Array, scale: jax.Array) -> jax.Array:
    wide, s = widen(x), scale[..., None]
    mean = jnp.mean(wide * g, axis=-1, keepdims=True)
    return s * g - wide * (s * s * s * mean)


def weight_backward(x: jax.Array, ct: jax.Array, scale: jax.Array) -> jax.Array:
    """The cotangent of the weight, from that of y."""
    terms = widen(x) * scale[..., None] * widen(ct)
    return jnp.sum(terms, tuple(range(x.ndim - 1))).astype(x.dtype)


def jvp(
    x: jax.Array,
    dx: jax.Array,
    scale: jax.Array,
    weight: jax.Array,
    dweight: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """The tangents of y and of what is normalized, x itself."""
    wide, wide_dx, scale = widen(x), widen(dx), scale[..., None]
    mean = jnp.mean(wide * wide_dx, axis=-1, keepdims=True)
    dy = scale * wide_dx - wide * (scale * scale * scale * mean)
    dy = of_rows(weight, x) * dy + wide * scale * of_rows(dweight, x)
    return dy.astype(x.dtype), dx


def scale_jvp(x: jax.Array, dx: jax.Array, scale: jax.Array) -> jax.Array:
    """The tangent of the scale, from that of x."""
    power = jnp.mean(widen(x) * widen(dx), axis=-1)
    return -(scale * scale * scale) * power
