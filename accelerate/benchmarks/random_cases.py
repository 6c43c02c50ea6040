"""JAX's random numbers, for the benchmark of `accelerate()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jax_cases import MILLION, Case, Shape

_KEY = np.array([1, 2], np.uint32)


def _key(shape: Shape, random: np.random.Generator) -> tuple[Any, ...]:
    """A key, and an array that only its shape is taken of."""
    return _KEY, np.zeros(shape, np.uint8)


def _case(
    name: str,
    own: Callable[[jax.Array, Shape], jax.Array],
    numpy: Callable[[np.random.Generator, Shape], Any],
    shapes: tuple[Shape, ...] = MILLION,
) -> Case:
    return Case(
        name,
        lambda key, like: own(key, like.shape),
        lambda key, like: numpy(np.random.default_rng(0), like.shape),
        _key,
        shapes,
    )


def _walk(key: jax.Array, shape: Shape) -> jax.Array:
    """The end of a random walk of that many steps."""

    def step(state: Any, _: None) -> tuple[Any, None]:
        key, at = state
        key, sub = jax.random.split(key)
        return (key, at + jax.random.normal(sub, dtype=np.float32)), None

    start = key, jnp.float32(0)
    return jax.lax.scan(step, start, None, length=shape[0])[0][1]


def _numpy_walk(random: np.random.Generator, shape: Shape) -> float:
    at = 0.0
    for _ in range(shape[0]):
        at += random.standard_normal()
    return at


RANDOM_CASES = (
    _case(
        "random bits",
        lambda k, s: jax.random.bits(k, s),
        lambda r, s: r.integers(0, 2**32, s, np.uint32),
        (*MILLION, (10_000_000,)),
    ),
    _case(
        "uniform f32",
        lambda k, s: jax.random.uniform(k, s, np.float32),
        lambda r, s: r.random(s, np.float32),
    ),
    _case(
        "normal f32",
        lambda k, s: jax.random.normal(k, s, np.float32),
        lambda r, s: r.standard_normal(s, np.float32),
    ),
    _case(
        "randint i32",
        lambda k, s: jax.random.randint(k, s, 0, 1000, np.int32),
        lambda r, s: r.integers(0, 1000, s, np.int32),
    ),
    _case(
        "bernoulli",
        lambda k, s: jax.random.bernoulli(k, jnp.float32(0.3), s),
        lambda r, s: r.random(s, np.float32) < 0.3,
    ),
    _case(
        "categorical",
        lambda k, s: jax.random.categorical(k, jnp.zeros(s, np.float32)),
        lambda r, s: np.argmax(-np.log(r.standard_exponential(s)), -1),
        ((10_000, 100),),
    ),
    _case(
        "poisson, 30",
        lambda k, s: jax.random.poisson(k, jnp.float32(30), s),
        lambda r, s: r.poisson(30.0, s),
        ((10_000,),),
    ),
    _case(
        "split",
        lambda k, s: jax.random.split(k, s[0]),
        lambda r, s: r.integers(0, 2**32, (*s, 2), np.uint32),
        ((2,), (16,), (1_000,), (100_000,)),
    ),
    _case("random walk", _walk, _numpy_walk, ((1_000,),)),
)
