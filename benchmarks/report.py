"""The benchmark's result as text and JSON, with what it was measured on."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import pathlib
import platform
from collections.abc import Iterable
from typing import Any

import jax
import jaxlib
import numpy as np

from measure import THREADS, Row
from publish import written

_ISAS = ("avx512f", "avx2", "f16c", "fma", "asimd")
_HUGE = "/sys/kernel/mm/transparent_hugepage/enabled"

# Contestant -> heading of its column: its time divided by the kit's.
COLUMNS = {
    "xla": "x XLA",
    "tutorial": "x loop",
    "numpy": "x NumPy",
    "copy": "x copy",
    "copy, huge pages": "x copy (huge)",
    "kit, 1 thread": "x 1 thread",
}


_PUBLISHED = ("xla", "tutorial", "numpy", "copy", "copy, huge pages")


def environment() -> dict[str, Any]:
    """Versions and machine."""
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = [s for s in text.splitlines() if s.startswith("model name")]
    flags = set(text.split())
    huge = pathlib.Path(_HUGE)
    return {
        "jax": jax.__version__,
        "jaxlib": jaxlib.__version__,
        "numpy": np.__version__,
        "cpu": models[0].partition(": ")[2] if models else platform.machine(),
        "day": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "isa": [isa for isa in _ISAS if isa in flags],
        "thread limit": os.environ.get(THREADS, "none"),
        "huge pages": huge.read_text().strip() if huge.exists() else "none",
        "load": os.getloadavg()[0],
    }


def heading() -> str:
    """The environment, and the table's first lines."""
    e = environment()
    lines = [
        f"jax {e['jax']}, jaxlib {e['jaxlib']}, numpy {e['numpy']}; "
        f"{e['cpu']}, {e['cores']} cores, {' '.join(e['isa'])}; huge pages: "
        f"{e['huge pages']}; thread limit: {e['thread limit']}; load "
        f"{e['load']:.1f}",
        "",
        "A column is another's time divided by the kit's, median (quartiles).",
        "",
        "| cell | kit us | GB/s | faults | "
        + " | ".join(COLUMNS.values())
        + " |",
        "|---|" + "---|" * (3 + len(COLUMNS)),
    ]
    return "\n".join(lines)


def line(row: Row) -> str:
    """A row of the table."""
    bandwidth = row.gigabytes_per_second
    cells = [
        row.name,
        f"{row.microseconds['kit']:.4g}",
        "-" if bandwidth is None else f"{bandwidth:.1f}",
        f"{row.faults['kit']:.0f}",
    ]
    for name in COLUMNS:
        ratio = row.ratios.get(name)
        cells.append(
            f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})"
            if ratio
            else "-"
        )
    return f"| {' | '.join(cells)} |"


def summary(rows: Iterable[Row]) -> str:
    """One paragraph: how many cells, the worst, and YNNPACK."""
    rows = list(rows)
    if not rows:
        return "no cells"
    worst = min(rows, key=lambda row: row.ratios["xla"].median)
    slower = [row for row in rows if row.ratios["xla"].median < 1]
    ynnpack = sum(row.ynnpack for row in rows)
    return (
        f"{len(rows)} cells, {len(slower)} slower than XLA's own code; the "
        f"worst is {worst.name}, {worst.ratios['xla'].median:.2f} x XLA. XLA "
        f"used YNNPACK in {ynnpack} of them."
    )


def publish(path: pathlib.Path, rows: Iterable[Row], another_jax: bool) -> None:
    """Writes the file of measurements, or what it says of another JAX."""
    data = json.loads(path.read_text()) if path.exists() else {"newest": {}}
    if another_jax:
        ratios = {r.name: float(f"{r.ratios['xla'].median:.3g}") for r in rows}
        data["newest"] = {"jax": jax.__version__, "x": ratios}
    else:
        data["environment"] = environment()
        data["cells"] = {row.name: _published(row) for row in rows}
    path.write_text(written(data))


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


def write(path: str, rows: Iterable[Row]) -> None:
    """Everything as JSON."""
    found = {
        "environment": environment(),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(found, file, indent=1)
