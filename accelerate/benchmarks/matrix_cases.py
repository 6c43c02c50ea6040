"""Small matrices under `accelerate()`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jax_cases import Case, Shape, floats

_MATRICES: tuple[Shape, ...] = ((10, 4, 4), (10_000, 4, 4), (10_000, 6, 6))


def _two_of_them(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return *floats(shape, random), *floats(shape, random)


MATRIX_CASES = (
    Case("matmul, small", jnp.matmul, np.matmul, _two_of_them, _MATRICES),
)
