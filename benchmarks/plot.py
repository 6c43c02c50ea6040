"""The benchmark as a picture."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")  # no display

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from measure import Row

_SWEEP = "sweep/"


def draw(path: str, rows: Sequence[Row]) -> None:
    """Ratios per cell; beside it, if measured, GB/s against size."""
    cells = [row for row in rows if not row.name.startswith(_SWEEP)]
    sweep = [row for row in rows if row.name.startswith(_SWEEP)]
    figure = plt.figure(
        figsize=(14 if sweep else 9, max(4, 1.5 + 0.16 * len(cells)))
    )
    count = bool(cells) + bool(sweep)
    if cells:
        _ratios(figure.add_subplot(1, count, 1), cells)
    if sweep:
        _bandwidth(figure.add_subplot(1, count, count), sweep)
    _save(figure, path)


def _save(figure: Figure, path: str) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _ratios(axes: plt.Axes, rows: Sequence[Row]) -> None:
    at = range(len(rows))
    median = [row.ratios["xla"].median for row in rows]
    below = [r.ratios["xla"].median - r.ratios["xla"].low for r in rows]
    above = [r.ratios["xla"].high - r.ratios["xla"].median for r in rows]
    axes.barh(at, median, xerr=(below, above), label="XLA's own code")
    for name, mark in (("tutorial", "o"), ("numpy", "x")):
        places = [i for i in at if name in rows[i].ratios]
        if places:
            values = [rows[i].ratios[name].median for i in places]
            axes.plot(values, places, mark, markersize=3, label=name)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(list(at), [row.name for row in rows], fontsize=6)
    axes.invert_yaxis()
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
