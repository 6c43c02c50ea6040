"""The kit's own functions beside those of JAX, for the benchmark."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from accelerate_cases import (
    MILLION,
    Arguments,
    Case,
    Shape,
    few_integers,
    floats,
    integers,
    mask,
    numpy_choice,
)

import xla_ffi_kit

_PERCENTILES = np.float32([5.0, 50.0, 95.0])
_TABLE: Shape = (1_000_000, 8)
# XLA may round the product and the sum between two elements as one.
_ROUNDING = 1e-6


def _elements_and_tests(
    shape: Shape, random: np.random.Generator
) -> tuple[Any, ...]:
    (elements,) = integers(shape, random)
    return elements, elements[: min(elements.size, 4096)] + 1


def _case(
    name: str,
    call: Callable[..., Any],
    arguments: Arguments,
    *,
    own: Any = jnp,
    numpy_call: Callable[..., Any] | None = None,
    shapes: tuple[Shape, ...] = MILLION,
    tolerance: float = 0,
) -> Case:
    """call(module, *arrays), with the module of JAX, the kit and NumPy."""
    is_of_numpy = own is jnp and name in xla_ffi_kit.numpy.__all__
    return Case(
        f"{name} of the kit",
        functools.partial(call, own),
        numpy_call or functools.partial(call, np),
        arguments,
        shapes,
        functools.partial(
            call, xla_ffi_kit.numpy if is_of_numpy else xla_ffi_kit.interim
        ),
        tolerance,
    )


def _permutation(random: Any, x: jax.Array) -> jax.Array:
    return random.permutation(jax.random.key(0), x)


def _choice(random: Any, x: jax.Array) -> jax.Array:
    count = max(x.size // 16, 1)
    return random.choice(jax.random.key(0), x, (count,), replace=False)


KIT_CASES = (
    _case("median", lambda m, x: m.median(x), floats),
    _case(
        "median of rows",
        lambda m, x: m.median(x, axis=-1),
        floats,
        shapes=((2, 8), _TABLE),
    ),
    _case(
        "quantile",
        lambda m, x: m.quantile(x, 0.9),
        floats,
        tolerance=_ROUNDING,
    ),
    _case(
        "percentile, three",
        lambda m, x: m.percentile(x, _PERCENTILES),
        floats,
        tolerance=_ROUNDING,
    ),
    _case(
        "unique",
        lambda m, x: m.unique(x, size=4096),
        few_integers,
        numpy_call=np.unique,
    ),
    _case("isin", lambda m, x, tests: m.isin(x, tests), _elements_and_tests),
    _case(
        "nonzero",
        lambda m, x: m.nonzero(x, size=x.size),
        mask,
        numpy_call=np.nonzero,
    ),
    _case(
        "permutation",
        _permutation,
        floats,
        own=jax.random,
        numpy_call=lambda x: np.random.default_rng(0).permutation(x),
    ),
    _case("choice", _choice, floats, own=jax.random, numpy_call=numpy_choice),
)
