"""The page and the picture of the benchmark of strings, from its figures."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping
from typing import Any

from bench.page import digits, duration, machine, table, written
from strings_kernels import kernels

DATA = "benchmarks/strings.json"
PAGE = "docs/strings_measured.md"
PICTURE = "docs/strings_measured.svg"
# What is measured -> who is beside the kit.
_BESIDE = {
    "value": ("JAX", "numba", "Warp"),
    "gradient": ("JAX", "by hand", "Warp"),
}


def ratio(row: Mapping[str, Any], what: str, who: str) -> float | None:
    """Another's time divided by the kit's, if it was measured."""
    times = row[what]
    return times[who] / times["kit"] if who in times else None


def _cells(row: Mapping[str, Any]) -> list[str]:
    cells = []
    for what, beside in _BESIDE.items():
        cells.append(duration(row[what]["kit"]))
        ratios = (ratio(row, what, who) for who in beside)
        cells += ["-" if r is None else digits(r) for r in ratios]
    return cells


def line(row: Mapping[str, Any]) -> str:
    """A row as text."""
    names = [name for w, beside in _BESIDE.items() for name in (w, *beside)]
    pairs = zip(names, _cells(row), strict=True)
    said = "  ".join(f"{name} {cell}" for name, cell in pairs)
    return f"{row['name']}, {row['rows']} rows: {said}"


def page(data: Mapping[str, Any]) -> str:
    """The page's text."""
    heading = ["kernel", "rows", "value", "x JAX", "x numba", "x Warp"]
    heading += ["and gradient", "x JAX", "x by hand", "x Warp"]
    cells = [heading]
    for row in data["kernels"]:
        cells.append([row["name"], row["rows"], *_cells(row)])
    e = data["environment"]
    beside = (f"{p} {e[p]}" for p in ("numba", "warp-lang") if p in e)
    on = f"Measured on {', '.join((machine(e), *beside))}."
    forms = [["kernel", "elements of a row", "JAX form"]]
    forms += [[k.name, k.size, k.form] for k in kernels().values()]
    return (
        f"{_INTRODUCTION}\n{textwrap.fill(on, 80)}\n\n{table(cells)}\n\n"
        f"{_FORMS}\n{table(forms)}\n"
    )


def draw(path: pathlib.Path, data: Mapping[str, Any]) -> None:
    """Writes how many times as fast as JAX 391 rows of each are: SVG."""
    from bench import plot

    rows = [row for row in data["kernels"] if row["rows"] > 1][::-1]
    bars = {
        label: [row[what]["JAX"] / row[what]["kit"] for row in rows]
        for what, label in (("value", "value"), ("gradient", "with gradient"))
    }
    names = [row["name"] for row in rows]
    title = f"Strings, 391 rows: {machine(data['environment'])}"
    plot.of_modes(path, bars, names, title)


def write(root: pathlib.Path, data: Mapping[str, Any]) -> None:
    """Writes the file of measurements, page and picture."""
    (root / DATA).write_text(written(data, "kernels"))
    (root / PAGE).write_text(page(data))
    draw(root / PICTURE, data)


_INTRODUCTION = """\
# Kernels as strings, measured

Ten kernels as strings of [`rows` and `inline`](pip.md) with
[`derivatives="kernel"`](derivatives.md#by-the-kernel-itself), in f32: the
value, and value and gradient towards all operands. Beside them are a form in
plain JAX with JAX's own derivative (below), the same loop in numba, which has
no derivative, NVIDIA Warp on its CPU, and the string with an adjoint by hand.

A number without a unit is the other's time divided by the string's: 2 means
that the string takes half as long. All run on one thread and take turns in one
process; the least time counts. Calls are those from Python, so that some
microseconds of a single row are those of the call: 5 to 10 of XLA's, 1 of
numba's, 20 to 100 of Warp's. Results are compared before. Of 391 rows, the
strings without a branch on data have `lanes=True`.

`tools/bazel run -c opt //benchmarks:strings -- --publish` writes this page and
[`strings.json`](../benchmarks/strings.json); the kernels are in
[`strings_kernels.py`](../benchmarks/strings_kernels.py) and
[`strings_algorithms.py`](../benchmarks/strings_algorithms.py).

![Speedup over JAX's own CPU code](strings_measured.svg)
"""

_FORMS = """\
## The forms in JAX

Programs whose gradient is JAX's own; no rule is written by hand.
"""
