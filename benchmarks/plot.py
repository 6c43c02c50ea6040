"""The benchmark as a picture."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display

import matplotlib.pyplot as plt

from measure import Row
from publish import digits, duration, machine

_SWEEP = "sweep/"
_CELLS_IN_COLUMN = 120
_INCHES_OF_CELL = 0.13


def draw(path: str, rows: Sequence[Row]) -> None:
    """Ratios per cell, in columns; above them, if measured, GB/s and size."""
    sweep = [row for row in rows if row.name.startswith(_SWEEP)]
    cells = [row for row in rows if not row.name.startswith(_SWEEP)]
    count = max(1, math.ceil(len(cells) / _CELLS_IN_COLUMN))
    tallest = math.ceil(len(cells) / count)
    heights = [5.0] if sweep else []
    heights += [1.5 + _INCHES_OF_CELL * tallest] if cells else []
    figure = plt.figure(figsize=(7 * count, sum(heights)), layout="constrained")
    grid = figure.add_gridspec(len(heights), count, height_ratios=heights)
    if sweep:
        _bandwidth(figure.add_subplot(grid[0, :]), sweep)
    first = None
    for column in range(count if cells else 0):
        first = figure.add_subplot(grid[-1, column], sharex=first)
        _ratios(first, cells[column * tallest : (column + 1) * tallest])
    figure.savefig(path, dpi=80)
    plt.close(figure)


def _ratios(axes: plt.Axes, rows: Sequence[Row]) -> None:
    at = range(len(rows))
    median = [row.ratios["xla"].median for row in rows]
    below = [r.ratios["xla"].median - r.ratios["xla"].low for r in rows]
    above = [r.ratios["xla"].high - r.ratios["xla"].median for r in rows]
    # From 1 to the ratio: what is slower than XLA's own code points left.
    colors = ["tab:blue" if value >= 1 else "tab:red" for value in median]
    lengths = [value - 1 for value in median]
    axes.barh(at, lengths, left=1, color=colors)
    axes.barh([], [], color="tab:blue", label="XLA's own code")
    axes.errorbar(median, at, xerr=(below, above), fmt="none", ecolor="black")
    for name, mark in (("tutorial", "o"), ("numpy", "x")):
        places = [i for i in at if name in rows[i].ratios]
        if places:
            values = [rows[i].ratios[name].median for i in places]
            axes.plot(values, places, mark, markersize=3, label=name)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(list(at), [row.name for row in rows], fontsize=6)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel("time / the kit's time")
    axes.legend(fontsize=7)


def _bandwidth(axes: plt.Axes, rows: Sequence[Row]) -> None:
    sizes, series = [], {"kit": [], "xla": [], "tutorial": [], "copy": []}
    for row in sorted(rows, key=lambda row: _bytes(row)):
        sizes.append(_bytes(row))
        for name, values in series.items():
            seconds = row.microseconds[name] * 1e-6
            values.append(_bytes(row) / seconds / 1e9)
    for name, values in series.items():
        style = "--" if name == "copy" else "-"
        axes.plot(sizes, values, style, marker=".", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("bytes read and written")
    axes.set_ylabel("GB/s")
    axes.set_title(rows[0].name.split("/")[1] + ", f32, rows of 1024")
    axes.legend()


def _bytes(row: Row) -> float:
    assert row.gigabytes_per_second is not None
    return row.gigabytes_per_second * row.microseconds["kit"] * 1e3


def bars(
    path: pathlib.Path, in_words: Mapping[str, str], data: Mapping[str, Any]
) -> None:
    """Writes how many times as fast as JAX's own code some cells are: SVG.

    Args:
      path: the picture's.
      in_words: what each pair of bars is called -> its cell, which has NumPy.
      data: the file of measurements.
    """
    rows = sorted(
        ((data["cells"][name], words) for words, name in in_words.items()),
        key=lambda row: float(row[0]["x"]["xla"]),
    )
    kit = [cell["x"]["xla"] for cell, _ in rows]
    numpy = [cell["x"]["xla"] / cell["x"]["numpy"] for cell, _ in rows]
    places = range(len(rows))
    figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
    drawn = axes.barh(
        [place + 0.2 for place in places], kit, 0.4, label="accelerate"
    )
    beside = axes.barh(
        [place - 0.2 for place in places],
        numpy,
        0.4,
        color="lightgray",
        label="NumPy",
    )
    axes.bar_label(drawn, [_in_words(cell) for cell, _ in rows], padding=3)
    axes.bar_label(beside, [digits(ratio) for ratio in numpy], padding=3)
    axes.set_yticks(list(places), [words for _, words in rows])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(0.5, 30 * max(kit))
    axes.set_xlabel("times as fast as JAX's own code")
    axes.set_title(machine(data), fontsize="medium")
    axes.legend(loc="lower right")
    # Text stays text; no date and no random names, so that the same figures
    # give the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bars"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)


def _in_words(cell: Mapping[str, Any]) -> str:
    times = cell["us"]
    took = duration(times["kit"])
    if "xla" in times:
        took = f"{duration(times['xla'])} to {took}"
    return f"{digits(cell['x']['xla'])} ({took})"
