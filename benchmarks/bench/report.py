"""What `compare` says of the rows that it has measured, and keeps of them."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence
from typing import Any

import jax
import jaxlib
import numpy as np

from bench import page
from bench.measure import Row

_PUBLISHED = ("xla", "tutorial", "numpy", "copy", "copy, huge pages")


def environment() -> dict[str, Any]:
    """Versions and machine."""
    return page.environment(
        jax=jax.__version__, jaxlib=jaxlib.__version__, numpy=np.__version__
    )


def heading() -> str:
    """The environment, and what the lines say."""
    about = ", ".join(f"{k} {v}" for k, v in environment().items())
    return (
        f"{about}\n\nThe kit's time, and another's time divided by the kit's: "
        "median (quartiles).\n"
    )


def line(row: Row) -> str:
    """A row as text."""
    parts = [f"{row.name}: {row.microseconds['kit']:.4g} us"]
    if row.gigabytes_per_second is not None:
        parts.append(f"{row.gigabytes_per_second:.1f} GB/s")
    parts.append(f"{row.faults['kit']:.0f} faults")
    parts += [
        f"x {name} {ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
        for name, ratio in row.ratios.items()
    ]
    return "; ".join(parts)


def summary(rows: Sequence[Row]) -> str:
    """One paragraph: how many cells, the worst, and YNNPACK."""
    worst = min(rows, key=lambda row: row.ratios["xla"].median)
    slower = sum(row.ratios["xla"].median < 1 for row in rows)
    return (
        f"{len(rows)} cells, {slower} slower than XLA's own code; the "
        f"worst is {worst.name}, {worst.ratios['xla'].median:.2f} x XLA. XLA "
        f"used YNNPACK in {sum(row.ynnpack for row in rows)} of them."
    )


def write(path: str, rows: Sequence[Row]) -> None:
    """Everything as JSON."""
    found = {
        "environment": environment(),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    pathlib.Path(path).write_text(json.dumps(found, indent=1))


def publish(path: pathlib.Path, rows: Sequence[Row], another_jax: bool) -> None:
    """Writes the file of measurements, or what it says of another JAX."""
    data = json.loads(path.read_text()) if path.exists() else {"newest": {}}
    if another_jax:
        ratios = {r.name: float(f"{r.ratios['xla'].median:.3g}") for r in rows}
        newest = {"jax": jax.__version__, "x": ratios}
        data = data | {"newest": newest}
    else:
        cells = {row.name: _published(row) for row in rows}
        data = data | {"environment": environment(), "cells": cells}
    ordered = {k: data[k] for k in ("environment", "newest", "cells")}
    path.write_text(page.written(ordered, "cells"))


def _published(row: Row) -> dict[str, dict[str, float]]:
    return {
        "us": {
            name: float(f"{row.microseconds[name]:.4g}")
            for name in ("kit", "xla", "numpy")
            if name in row.microseconds
        },
        "x": {
            name: float(f"{ratio.median:.3g}")
            for name, ratio in row.ratios.items()
            if name in _PUBLISHED
        },
    }
