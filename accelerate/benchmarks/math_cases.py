"""JAX's elementwise functions under `accelerate("math")`, for the benchmark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import MILLION, Case, Shape

_TOLERANCE = 1e-5
_HIDDEN = 64


def _pairs(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return tuple(random.uniform(0, 1, shape).astype(np.float32) for _ in "xy")


def _layer(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    """Rows, weights and targets of one layer with that many results."""
    rows = max(shape[0] // _HIDDEN, 1)
    shapes = ((rows, _HIDDEN), (_HIDDEN, _HIDDEN), (rows, _HIDDEN))
    return tuple(
        random.standard_normal(s).astype(np.float32) / 8 for s in shapes
    )


def _cases(name: str, f: Callable[..., Any], g: Callable[..., Any]) -> Any:
    """The function alone, and where its result is summed up."""
    yield Case(f"{name} f32", f, g, _pairs, MILLION, tolerance=_TOLERANCE)
    yield Case(
        f"sum of {name} f32",
        lambda x, y: (f(x, y) * x).sum(),
        lambda x, y: (g(x, y) * x).sum(),
        _pairs,
        MILLION[1:],
        tolerance=_TOLERANCE,
    )


def _loss(w: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    return ((jnp.sin(x @ w) - y) ** 2).mean()


def _numpy_loss(x: np.ndarray, w: np.ndarray, y: np.ndarray) -> Any:
    error = np.sin(x @ w) - y
    slope = 2 / error.size * error * np.cos(x @ w)
    return (error**2).mean(), x.T @ slope


_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sin": (lambda x, _: jnp.sin(x), lambda x, _: np.sin(x)),
    "cos": (lambda x, _: jnp.cos(x), lambda x, _: np.cos(x)),
    "tan": (lambda x, _: jnp.tan(x), lambda x, _: np.tan(x)),
    "asin": (lambda x, _: jnp.arcsin(x), lambda x, _: np.arcsin(x)),
    "acos": (lambda x, _: jnp.arccos(x), lambda x, _: np.arccos(x)),
    "cbrt": (lambda x, _: jnp.cbrt(x), lambda x, _: np.cbrt(x)),
    "atan2": (jnp.arctan2, np.arctan2),
    "power": (jnp.power, np.power),
}

MATH_CASES = (
    *(
        case
        for name, (f, g) in _FUNCTIONS.items()
        for case in _cases(name, f, g)
    ),
    Case(
        "loss of sines, and gradient",
        lambda x, w, y: jax.value_and_grad(_loss)(w, x, y),
        _numpy_loss,
        _layer,
        MILLION[1:],
        tolerance=_TOLERANCE,
    ),
)
