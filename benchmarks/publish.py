"""Writes a file of measurements, and its figures into a page and a README.

`compare -- --publish` measures and writes; `compare -- --pages` writes what the
file of measurements says already.
"""

from __future__ import annotations

import json
import math
import pathlib
import re
import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

# Contestant -> heading of its column: its time divided by the kit's.
_COLUMNS = {
    "xla": "x XLA",
    "newest": "x XLA, newest JAX",
    "tutorial": "x loop",
    "numpy": "x NumPy",
    "copy": "x copy",
    "copy, huge pages": "x copy to huge pages",
}


class Publication(NamedTuple):
    """Where the figures of a benchmark stand; all paths are the tree's.

    Attributes:
      data: the file of measurements.
      page: the page of all figures.
      introduction: the page's first lines.
      readme: a page in which `<!-- times CELL -->` precedes a cell's ratio.
      bars: a picture of some figures, SVG; none if empty.
      in_words: what the bars are called -> the cell of each.
    """

    data: str
    page: str
    introduction: str
    readme: str
    bars: str = ""
    in_words: Mapping[str, str] = {}


def digits(value: float) -> str:
    """Three digits, and at least two of them decimals below ten."""
    return f"{value:.{max(0, min(2, 2 - math.floor(math.log10(value))))}f}"


def duration(microseconds: float) -> str:
    """With its unit, to three digits."""
    if microseconds < 1000:
        return f"{microseconds:.3g} us"
    milliseconds = microseconds / 1000
    text = (
        f"{milliseconds:,.0f}"
        if milliseconds >= 1000
        else f"{milliseconds:.3g}"
    )
    return f"{text} ms"


def written(data: Mapping[str, Any]) -> str:
    """The text of a file of measurements, with a line for each cell."""
    cells = data["cells"].items()
    lines = [f"{json.dumps(name)}: {json.dumps(cell)}" for name, cell in cells]
    return (
        f'{{\n"environment": {json.dumps(data["environment"])},\n'
        f'"newest": {json.dumps(data["newest"])},\n"cells": {{\n'
        + ",\n".join(lines)
        + "\n}}\n"
    )


def _machine(environment: Mapping[str, Any]) -> str:
    e = environment
    # Linux writes "always [madvise] never".
    huge = re.sub(r".*\[(\w+)\].*", r"\1", e["huge pages"])
    return (
        f"{e['cores']} cores ({e['cpu']}, {', '.join(e['isa'])}), jax "
        f"{e['jax']}, huge pages on {huge}."
    )


def page(publication: Publication, data: Mapping[str, Any]) -> str:
    """The text of the page of all figures."""
    newest = data["newest"].get("x", {})
    ratios = {
        name: cell["x"] | ({"newest": newest[name]} if name in newest else {})
        for name, cell in data["cells"].items()
    }
    columns = [
        c for c in _COLUMNS if any(c in cell for cell in ratios.values())
    ]
    heading = ["cell", "XLA", "kit", *(_COLUMNS[c] for c in columns)]
    rows = [heading, ["---"] * len(heading)]
    for name, cell in data["cells"].items():
        found = (ratios[name].get(c) for c in columns)
        cells = ["-" if ratio is None else digits(ratio) for ratio in found]
        times = (cell["us"].get(c) for c in ("xla", "kit"))
        took = ("-" if time is None else duration(time) for time in times)
        rows.append([f"`{name}`", *took, *cells])
    below = sum(cell["x"]["xla"] < 1 for cell in data["cells"].values())
    text = f"XLA's own code is faster in {below} of the {len(ratios)} cells."
    if newest:
        text += f' "Newest JAX" is {data["newest"]["jax"]}.'
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"{publication.introduction}\n{_machine(data['environment'])}\n\n"
        f"{textwrap.fill(text, 80)}\n\n{table}\n"
    )


def readme(text: str, data: Mapping[str, Any]) -> str:
    """The text of a README with the measured ratios in it."""

    def ratio(found: re.Match[str]) -> str:
        return found[1] + digits(data["cells"][found[2]]["x"]["xla"])

    return re.sub(r"(<!-- times (\S+) -->)[0-9.]+", ratio, text)


def pages(publication: Publication, root: pathlib.Path) -> dict[str, str]:
    """What the pages below `root` ought to contain, by path."""
    data = json.loads((root / publication.data).read_text())
    said = (root / publication.readme).read_text()
    return {
        publication.page: page(publication, data),
        publication.readme: readme(said, data),
    }


def write(publication: Publication, root: pathlib.Path) -> None:
    """Writes the pages and the picture below `root`."""
    for path, text in pages(publication, root).items():
        (root / path).write_text(text)
    if publication.bars:
        # Imported here: environments with another JAX have no matplotlib.
        import plot

        data = json.loads((root / publication.data).read_text())
        plot.bars(root / publication.bars, publication.in_words, data["cells"])
