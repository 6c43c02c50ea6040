"""JAX's functions beside those with xla_ffi_kit.accelerate(), or the kit's."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from accelerate_cases import CASES, Case
from array_cases import ARRAY_CASES
from cells import Cell
from kit_function_cases import KIT_CASES
from math_cases import MATH_CASES
from matrix_cases import MATRIX_CASES
from random_cases import RANDOM_CASES

import xla_ffi_kit


def accelerate_cells() -> Iterator[Cell]:
    """Every case in every shape; the kit's functions also called eagerly."""
    of_arrays = (*CASES, *ARRAY_CASES, *MATH_CASES, *MATRIX_CASES)
    for case in (*of_arrays, *RANDOM_CASES, *KIT_CASES):
        for shape in case.shapes:
            yield _cell(case, shape, "fresh", _accelerated)
        if case.kit_function is not None:
            yield _cell(case, case.shapes[0], "eager", _eager)


def _cell(case: Case, shape: tuple[int, ...], regime: str, make: Any) -> Cell:
    name = case.name.replace(" ", "_").replace("/", "_")
    size = "x".join(map(str, shape))
    return Cell(
        f"accelerate/{name}/{size}/{regime}",
        0,  # what they move depends on the algorithm
        functools.partial(make, case, shape),
        tolerance=case.tolerance,
    )


def _operands(case: Case, shape: tuple[int, ...]) -> tuple[Any, Any]:
    host = case.arguments(shape, np.random.default_rng(0))
    return host, jax.block_until_ready(jax.device_put(host))


def _accelerated(case: Case, shape: tuple[int, ...]) -> dict[str, Any]:
    host, device = _operands(case, shape)
    made: dict[str, Any] = {}
    is_own = case.kit_function is not None
    functions = {
        "xla": (case.jax_function, (False,)),
        "kit": (case.kit_function or case.jax_function, (False,) * is_own),
    }
    for name, (function, switch) in functions.items():
        with xla_ffi_kit.accelerate(*switch, exact=not case.tolerance):
            # Compiled here: an executable outlives the switch.
            jitted = jax.jit(function).lower(*device).compile()
        made[name] = (jitted, device)
    return made | {"numpy": (case.numpy_function, host)}


def _eager(case: Case, shape: tuple[int, ...]) -> dict[str, Any]:
    host, device = _operands(case, shape)
    return {
        "xla": (case.jax_function, device),
        "kit": (case.kit_function, device),
        "numpy": (case.numpy_function, host),
    }
