"""Convolutions, pooling and linear algebra under `accelerate()`."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import Case, Shape, floats

_IMAGES: tuple[Shape, ...] = ((1, 8, 8, 32), (8, 64, 64, 32))


def _depthwise(
    x: jax.Array, kernel: jax.Array, *, stride: int = 1
) -> jax.Array:
    return jax.lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=x.shape[-1],
    )


def _input_gradient(
    x: jax.Array, kernel: jax.Array, *, stride: int = 1
) -> jax.Array:
    convolve = functools.partial(_depthwise, stride=stride)
    images = jnp.repeat(jnp.repeat(x, stride, 1), stride, 2)
    transpose = jax.linear_transpose(lambda y: convolve(y, kernel), images)
    return transpose(x)[0]


def _images_and_kernel(
    shape: Shape, random: np.random.Generator
) -> tuple[Any, ...]:
    return *floats(shape, random), *floats((3, 3, 1, shape[-1]), random)


def _windows(x: np.ndarray) -> list[np.ndarray]:
    """The elements that a 3 x 3 kernel has below it, for each of its own."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    height, width = x.shape[1:3]
    return [
        padded[:, i : i + height, j : j + width]
        for i in range(3)
        for j in range(3)
    ]


def _numpy_depthwise(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    taps = kernel.reshape(9, -1)
    products = (w * k for w, k in zip(_windows(x), taps, strict=True))
    return functools.reduce(np.add, products)


def _pool_gradient(x: jax.Array) -> jax.Array:
    def pool(x: jax.Array) -> jax.Array:
        window = (1, 2, 2, 1)
        return jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, window, window, "VALID"
        )

    y, transpose = jax.vjp(pool, x)
    return transpose(y)[0]


def _numpy_pool_gradient(x: np.ndarray) -> np.ndarray:
    n, h, w, c = x.shape
    windows = x.reshape(n, h // 2, 2, w // 2, 2, c).swapaxes(2, 3)
    windows = windows.reshape(n, h // 2, w // 2, 4, c)
    first = windows.argmax(3, keepdims=True) == np.arange(4)[:, None]
    chosen = np.where(first, windows, 0).reshape(n, h // 2, w // 2, 2, 2, c)
    return chosen.swapaxes(2, 3).reshape(x.shape)


def _matrices(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    n = shape[-1]
    (a,), (b,) = floats(shape, random), floats((*shape[:-1], 1), random)
    return a + 2 * n * np.eye(n, dtype=np.float32), b


def _definite(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    a, _ = _matrices(shape, random)
    return (a @ a.swapaxes(-1, -2),)


_SMALL: tuple[Shape, ...] = ((10_000, 4, 4), (10_000, 8, 8))
_FACTORS = 1e-5

ARRAY_CASES = (
    Case(
        "max pooling gradient",
        _pool_gradient,
        _numpy_pool_gradient,
        floats,
        _IMAGES,
    ),
    Case(
        "solve",
        jnp.linalg.solve,
        np.linalg.solve,
        _matrices,
        _SMALL,
        tolerance=_FACTORS,
    ),
    Case(
        "inv",
        lambda a, _: jnp.linalg.inv(a),
        lambda a, _: np.linalg.inv(a),
        _matrices,
        _SMALL,
        tolerance=_FACTORS,
    ),
    Case(
        "cholesky",
        jnp.linalg.cholesky,
        np.linalg.cholesky,
        _definite,
        _SMALL,
        tolerance=_FACTORS,
    ),
    Case(
        "depthwise",
        _depthwise,
        _numpy_depthwise,
        _images_and_kernel,
        _IMAGES,
    ),
    Case(
        "depthwise, input gradient",
        _input_gradient,
        lambda x, k: _numpy_depthwise(x, k[::-1, ::-1]),
        _images_and_kernel,
        _IMAGES,
    ),
)
