"""Pictures of measurements."""

from __future__ import annotations

import contextlib
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display

import matplotlib.pyplot as plt

from bench.page import digits, duration, machine

_SWEEP = "sweep/"
_CELLS_IN_COLUMN = 120
_INCHES_OF_CELL = 0.13


@contextlib.contextmanager
def _speedups(
    path: pathlib.Path,
    names: Sequence[str],
    size: tuple[float, float],
    most: float,
    title: str,
    of: str = "",
    least: float = 0.5,
) -> Iterator[plt.Axes]:
    """Axes for how many times as fast each is, which become an SVG."""
    figure, axes = plt.subplots(figsize=size, layout="constrained")
    yield axes
    axes.set_yticks(range(len(names)), names)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(least, most)
    axes.set_xlabel(f"times as fast as JAX's own code{of}")
    axes.set_title(title, fontsize="medium")
    # Text stays text; no date and no random names, so that the same figures
    # give the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": path.stem}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)


def _bars(axes: plt.Axes, values: Sequence[float], **options: Any) -> Any:
    shift, height = options.pop("shift", 0), options.pop("height", 0.4)
    places = [place + shift for place in range(len(values))]
    return axes.barh(places, values, height, **options)


def beside_numpy(
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
    names, title = [words for _, words in rows], machine(data["environment"])
    with _speedups(path, names, (8, 3.6), 30 * max(kit), title) as axes:
        drawn = _bars(axes, kit, shift=0.2, label="accelerate")
        gray = {"color": "lightgray", "label": "NumPy"}
        beside = _bars(axes, numpy, shift=-0.2, **gray)
        axes.bar_label(drawn, [_in_words(cell) for cell, _ in rows], padding=3)
        axes.bar_label(beside, [digits(ratio) for ratio in numpy], padding=3)
        axes.legend(loc="lower right")


def _in_words(cell: Mapping[str, Any]) -> str:
    times = cell["us"]
    took = duration(times["kit"])
    if "xla" in times:
        took = f"{duration(times['xla'])} to {took}"
    return f"{digits(cell['x']['xla'])} ({took})"


def of_modes(
    path: pathlib.Path,
    ratios: Mapping[str, Sequence[float]],
    names: Sequence[str],
    title: str,
) -> None:
    """Writes how many times as fast some programs are in modes: SVG.

    Args:
      path: the picture's.
      ratios: what a bar is called -> how long it is for each program. The one
        of a single mode ends the axis's name.
      names: the programs, from below.
      title: the picture's.
    """
    most = 2 * max(max(values) for values in ratios.values())
    is_one = len(ratios) == 1
    inches = (0.9 + 0.2 * len(names)) if is_one else (1 + 0.25 * len(names))
    of = "".join(ratios) if is_one else ""
    least = min(0.5, *(min(values) / 2 for values in ratios.values()))
    size = (8, inches)
    with _speedups(path, names, size, most, title, of, least) as axes:
        for i, (label, values) in enumerate(ratios.items()):
            looks = {"shift": 0, "height": 0.7}
            if not is_one:
                looks = {"shift": 0.2 - 0.4 * i, "color": f"C{i}"}
                looks["label"] = label
            axes.bar_label(
                _bars(axes, values, **looks),
                [f"{value:.2f}" for value in values],
                padding=3,
                **({} if is_one else {"fontsize": "x-small"}),
            )
        axes.set_ylim(-0.6, len(names) - 0.4)
        if not is_one:
            axes.legend(loc="lower right")


def draw(path: str, rows: Sequence[Any]) -> None:
    """Ratios per cell, in columns; above them, if measured, GB/s and size.

    Args:
      path: of a PNG or SVG.
      rows: of `bench.measure`.
    """
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


def _ratios(axes: plt.Axes, rows: Sequence[Any]) -> None:
    at = range(len(rows))
    of_xla = [row.ratios["xla"] for row in rows]
    median = [ratio.median for ratio in of_xla]
    ends = (
        [ratio.median - ratio.low for ratio in of_xla],
        [ratio.high - ratio.median for ratio in of_xla],
    )
    # From 1 to the ratio: what is slower than XLA's own code points left.
    colors = ["tab:blue" if value >= 1 else "tab:red" for value in median]
    axes.barh(at, [value - 1 for value in median], left=1, color=colors)
    axes.barh([], [], color="tab:blue", label="XLA's own code")
    axes.errorbar(median, at, xerr=ends, fmt="none", ecolor="black")
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


def _bandwidth(axes: plt.Axes, rows: Sequence[Any]) -> None:
    sizes = {
        row.name: row.gigabytes_per_second * row.microseconds["kit"] * 1e3
        for row in rows
    }
    rows = sorted(rows, key=lambda row: sizes[row.name])
    at = [sizes[row.name] for row in rows]
    for name in ("kit", "xla", "tutorial", "copy"):
        seconds = [row.microseconds[name] * 1e-6 for row in rows]
        values = [size / s / 1e9 for size, s in zip(at, seconds, strict=True)]
        style = "--" if name == "copy" else "-"
        axes.plot(at, values, style, marker=".", label=name)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("bytes read and written")
    axes.set_ylabel("GB/s")
    axes.set_title(rows[0].name.split("/")[1] + ", f32, rows of 1024")
    axes.legend()
