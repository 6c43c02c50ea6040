"""The figures of benchmarks/measured.json, and how they are written."""

from __future__ import annotations

import json
import math
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """What was measured of one cell, named as in cells.py."""

    name: str
    microseconds: dict[str, float]
    ratios: dict[str, float]

    @property
    def parts(self) -> tuple[str, str, str, str, str]:
        """Operation, direction, dtype, size and regime."""
        *operation, size, regime = self.name.split("/")
        operation += [""] * (3 - len(operation))
        return (*operation, size, regime)  # type: ignore[return-value]


def digits(value: float) -> str:
    """Three digits, and at least two of them decimals below ten."""
    return f"{value:.{max(0, min(2, 2 - math.floor(math.log10(value))))}f}"


def duration(microseconds: float) -> str:
    """With its unit, to three digits."""
    if microseconds < 1000:
        return f"{three(microseconds)} us"
    return f"{three(microseconds / 1000)} ms"


def three(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def read(text: str) -> tuple[dict[str, Any], list[Figure]]:
    """The environment and the figures of measured.json."""
    data = json.loads(text)
    cells = data["cells"].items()
    return data["environment"], [Figure(n, c["us"], c["x"]) for n, c in cells]


def newest(text: str) -> dict[str, Any]:
    """Of measured.json: the newest JAX ("jax"), and x XLA by cell ("x")."""
    found: dict[str, Any] = json.loads(text).get("newest", {})
    return found


def written(
    environment: dict[str, Any],
    cells: dict[str, dict[str, dict[str, float]]],
    newest: dict[str, Any],
) -> str:
    """The text of measured.json, with a line for each cell."""
    lines = [f"{json.dumps(n)}: {json.dumps(c)}" for n, c in cells.items()]
    return (
        f'{{\n"environment": {json.dumps(environment)},\n'
        f'"newest": {json.dumps(newest)},\n"cells": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )
