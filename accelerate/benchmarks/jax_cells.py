"""JAX's functions with and without the package."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import xla_ffi_accelerate
from array_cases import ARRAY_CASES
from bench.measure import Cell
from data_cases import DATA_CASES
from jax_cases import CASES, Case
from matrix_cases import MATRIX_CASES
from random_cases import RANDOM_CASES


def cases() -> tuple[Case, ...]:
    """All cases."""
    of_arrays = (*CASES, *DATA_CASES, *ARRAY_CASES)
    return (*of_arrays, *MATRIX_CASES, *RANDOM_CASES)


def jax_cells() -> Iterator[Cell]:
    """Every case in every shape."""
    for case in cases():
        for shape in case.shapes:
            yield _cell(case, shape)


def _cell(case: Case, shape: tuple[int, ...]) -> Cell:
    name = case.name.replace(" ", "_").replace("/", "_")
    size = "x".join(map(str, shape))
    return Cell(
        f"accelerate/{name}/{size}/fresh",
        0,  # what they move depends on the algorithm
        functools.partial(_accelerated, case, shape),
        tolerance=case.tolerance,
    )


def _operands(case: Case, shape: tuple[int, ...]) -> tuple[Any, Any]:
    host = case.arguments(shape, np.random.default_rng(0))
    return host, jax.block_until_ready(jax.device_put(host))


def _accelerated(case: Case, shape: tuple[int, ...]) -> dict[str, Any]:
    host, device = _operands(case, shape)
    made: dict[str, Any] = {}
    enabled = xla_ffi_accelerate.enabled(exact=not case.tolerance)
    functions = {
        "xla": (case.jax_function, xla_ffi_accelerate.disabled()),
        "kit": (case.jax_function, enabled),
    }
    for name, (function, setting) in functions.items():
        with setting:
            # Compiled here: an executable outlives the switch.
            jitted = jax.jit(function).lower(*device).compile()
        made[name] = (jitted, device)
    return made | {"numpy": (case.numpy_function, host)}
