"""JAX's functions that `accelerate()` makes faster, for the benchmark."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Shape = tuple[int, ...]
Arguments = Callable[[Shape, np.random.Generator], tuple[Any, ...]]

LINES: tuple[Shape, ...] = ((16,), (1_000,), (100_000,), (1_000_000,))
LONG: tuple[Shape, ...] = (*LINES, (10_000_000,))
ROWS: tuple[Shape, ...] = ((1024, 1024), (1_000_000, 8), (64, 65536))
MILLION: tuple[Shape, ...] = ((16,), (1_000_000,))


@dataclasses.dataclass(frozen=True)
class Case:
    """A function of JAX, its counterparts, and what they are given.

    Attributes:
      name: of the cells.
      jax_function: with and without `accelerate()`.
      numpy_function: what NumPy has for it.
      arguments: makes what they are given, of a shape.
      shapes: of the arguments.
      tolerance: of the results; 0 is bit for bit.
    """

    name: str
    jax_function: Callable[..., Any]
    numpy_function: Callable[..., Any]
    arguments: Arguments
    shapes: tuple[Shape, ...]
    tolerance: float = 0


def floats(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.standard_normal(shape, np.float32),)


def integers(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.integers(-(2**31), 2**31, shape, np.int32),)


def few_integers(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.integers(0, 4096, shape, np.int32),)


def key_and_payload(
    shape: Shape, random: np.random.Generator
) -> tuple[Any, ...]:
    return (*floats(shape, random), *floats(shape, random))


def stable_argsort(x: np.ndarray) -> np.ndarray:
    return np.argsort(x, kind="stable")


def sort_pairs(key: np.ndarray, payload: np.ndarray) -> Any:
    order = stable_argsort(key)
    return key[order], payload[order]


def numpy_top_k(x: np.ndarray, k: int) -> Any:
    """The k largest, in order, with their indices."""
    chosen = np.argpartition(x, -k, axis=-1)[..., -k:]
    values = np.take_along_axis(x, chosen, -1)
    order = np.argsort(-values, axis=-1, kind="stable")
    chosen = np.take_along_axis(chosen, order, -1)
    return np.take_along_axis(x, chosen, -1), chosen


def mask(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    return (random.integers(0, 3, shape) == 0,)


def permutation(x: jax.Array) -> jax.Array:
    return jax.random.permutation(jax.random.key(0), x)


def choice(x: jax.Array) -> jax.Array:
    count = max(x.size // 16, 1)
    return jax.random.choice(jax.random.key(0), x, (count,), replace=False)


def numpy_choice(x: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(0)
    return random.choice(x, max(x.size // 16, 1), replace=False)


CASES = (
    Case("sort f32", jnp.sort, np.sort, floats, (*LONG, *ROWS)),
    Case("sort i32", jnp.sort, np.sort, integers, (*LONG, *ROWS)),
    Case(
        "sort i16",
        lambda x: jnp.sort(x.astype(jnp.int16)),
        lambda x: np.sort(x.astype(np.int16)),
        integers,
        MILLION,
    ),
    Case("argsort f32", jnp.argsort, stable_argsort, floats, (*LINES, *ROWS)),
    Case(
        "sort key, payload",
        lambda key, payload: jax.lax.sort((key, payload), num_keys=1),
        sort_pairs,
        key_and_payload,
        LINES,
    ),
    Case(
        "lexsort",
        lambda a, b: jnp.lexsort((a, jnp.round(b * 8))),
        lambda a, b: np.lexsort((a, np.round(b * 8))),
        key_and_payload,
        MILLION,
    ),
    Case(
        "top_k, 64",
        lambda x: jax.lax.top_k(x, 64),
        functools.partial(numpy_top_k, k=64),
        floats,
        ((1_000,), (1_000_000,), (1024, 1024), (64, 65536)),
    ),
    Case(
        "top_k, 2",
        lambda x: jax.lax.top_k(x, 2),
        functools.partial(numpy_top_k, k=2),
        floats,
        ((16,), (8192, 64), (1_000_000, 8)),
    ),
    Case("median", jnp.median, np.median, floats, MILLION),
    Case(
        "median of rows",
        lambda x: jnp.median(x, axis=-1),
        lambda x: np.median(x, axis=-1),
        floats,
        ((2, 8), ROWS[1]),
    ),
    Case(
        "quantile",
        lambda x: jnp.quantile(x, 0.9),
        lambda x: np.quantile(x, 0.9),
        floats,
        MILLION,
    ),
    Case(
        "percentile, three",
        lambda x: jnp.percentile(x, jnp.array([5.0, 50.0, 95.0])),
        lambda x: np.percentile(x, [5.0, 50.0, 95.0]),
        floats,
        MILLION,
    ),
    Case(
        "unique",
        lambda x: jnp.unique(x, size=4096),
        np.unique,
        few_integers,
        MILLION,
    ),
    Case(
        "isin",
        lambda x: jnp.isin(x, x[:4096] + 2048, method="sort"),
        lambda x: np.isin(x, x[:4096] + 2048),
        few_integers,
        MILLION,
    ),
    Case(  # by comparing each with each: accelerate() must not slow that down
        "isin, by default",
        lambda x: jnp.isin(x, x[:4096] + 2048),
        lambda x: np.isin(x, x[:4096] + 2048),
        few_integers,
        LINES[:3:2],
    ),
    Case(
        "permutation",
        permutation,
        lambda x: np.random.default_rng(0).permutation(x),
        floats,
        MILLION,
    ),
    Case("choice", choice, numpy_choice, floats, MILLION),
    Case(
        "argmax f32",
        lambda x: jnp.argmax(x, axis=-1),
        lambda x: np.argmax(x, axis=-1),
        floats,
        (*LINES, *ROWS),
    ),
    Case(
        "argmax f32, axis 0",
        lambda x: jnp.argmax(x, axis=0),
        lambda x: np.argmax(x, axis=0),
        floats,
        ROWS[:1],
    ),
    Case(
        "cumsum f32",
        lambda x: jnp.cumsum(x, axis=-1),
        lambda x: np.cumsum(x, axis=-1),
        floats,
        (*LINES, *ROWS),
    ),
    Case(
        "cumsum i32",
        lambda x: jnp.cumsum(x, axis=-1),
        lambda x: np.cumsum(x, axis=-1, dtype=np.int32),
        integers,
        MILLION,
    ),
    Case(
        "cumsum bf16",
        lambda x: jnp.cumsum(x.astype(jnp.bfloat16)),
        lambda x: np.cumsum(x.astype(jnp.bfloat16)),
        floats,
        MILLION,
    ),
    Case(
        "nonzero, accelerated",
        lambda x: jnp.nonzero(x, size=x.size),
        np.nonzero,
        mask,
        MILLION,
    ),
)
