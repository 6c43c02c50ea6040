"""JAX's own functions with and without xla_ffi_kit.accelerate(), and NumPy."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from accelerate_cases import CASES, Case
from cells import Cell

import xla_ffi_kit


def accelerate_cells() -> Iterator[Cell]:
    """Every case in every shape."""
    for case in CASES:
        name = case.name.replace(" ", "_").replace("/", "_")
        for shape in case.shapes:
            size = "x".join(map(str, shape))
            yield Cell(
                f"accelerate/{name}/{size}/fresh",
                0,  # what they move depends on the algorithm
                functools.partial(_make, case, shape),
                tolerance=0,
            )


def _make(case: Case, shape: tuple[int, ...]) -> dict[str, Any]:
    host = case.arguments(shape, np.random.default_rng(0))
    device = jax.block_until_ready(jax.device_put(host))
    made: dict[str, Any] = {}
    for name, switch in (("xla", (False,)), ("kit", ())):
        with xla_ffi_kit.accelerate(*switch):
            # Compiled here: an executable outlives the switch.
            jitted = jax.jit(case.jax_function).lower(*device).compile()
        made[name] = (jitted, device)
    if case.numpy_function is not None:
        made["numpy"] = (case.numpy_function, host)
    return made
