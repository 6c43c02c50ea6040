"""The kit's own functions beside those of JAX, for the benchmark."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import xla_ffi_accelerate
from jax_cases import (
    MILLION,
    Arguments,
    Case,
    Shape,
    few_integers,
    integers,
    mask,
)


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
    numpy_call: Callable[..., Any] | None = None,
) -> Case:
    """call(module, *arrays), with the module of JAX, the kit and NumPy."""
    return Case(
        f"{name} of the kit",
        functools.partial(call, jnp),
        numpy_call or functools.partial(call, np),
        arguments,
        MILLION,
        functools.partial(call, xla_ffi_accelerate.numpy),
    )


KIT_CASES = (
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
)
