"""Data that XLA's own code is good at, for what orders and selects."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import Case, Shape, numpy_top_k, stable_argsort

Make = Callable[[int, np.random.Generator], np.ndarray]
_KINDS: dict[str, Make] = {
    "ascending": lambda size, _: np.arange(size),
    "descending": lambda size, _: np.arange(size, 0, -1),
    "equal": lambda size, _: np.zeros(size),
    "few values": lambda size, random: random.integers(0, 4, size),
    "NaN": lambda size, _: np.full(size, np.nan),
}
_ROWS: tuple[Shape, ...] = ((1000, 200),)
_LINE: tuple[Shape, ...] = ((100_000,),)
# Name -> JAX's function, NumPy's, the shapes.
_FUNCTIONS: dict[str, tuple[Any, Any, tuple[Shape, ...]]] = {
    "sort f32": (jnp.sort, np.sort, _ROWS),
    "argsort f32": (jnp.argsort, stable_argsort, _ROWS),
    **{
        f"top_k, {k}": (
            functools.partial(jax.lax.top_k, k=k),
            functools.partial(numpy_top_k, k=k),
            _ROWS,
        )
        for k in (1, 8, 64)
    },
    "argmax f32": (
        functools.partial(jnp.argmax, axis=-1),
        functools.partial(np.argmax, axis=-1),
        _ROWS,
    ),
    "median of rows": (
        functools.partial(jnp.median, axis=-1),
        functools.partial(np.median, axis=-1),
        _ROWS,
    ),
    "unique f32": (functools.partial(jnp.unique, size=4096), np.unique, _LINE),
    "searchsorted": (
        lambda x: jnp.searchsorted(jnp.sort(x), x, method="sort"),
        lambda x: np.searchsorted(np.sort(x), x),
        _LINE,
    ),
}


def _data(
    make: Make, shape: Shape, random: np.random.Generator
) -> tuple[Any, ...]:
    made = make(int(np.prod(shape)), random)
    return (made.reshape(shape).astype(np.float32),)


DATA_CASES = tuple(
    Case(
        f"{name}, {kind}",
        function,
        numpy_function,
        functools.partial(_data, make),
        shapes,
    )
    for name, (function, numpy_function, shapes) in _FUNCTIONS.items()
    for kind, make in _KINDS.items()
)
