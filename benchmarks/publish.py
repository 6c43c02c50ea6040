"""Writes a file of measurements, and its figures into pages.

Every page may say a figure behind a marker, which names the cell that it is of:

    <!-- times CELLS -->3.33              XLA's time divided by the kit's
    <!-- times CELLS numpy -->0.80        the same of another baseline
    <!-- times CELLS xla/copy -->0.70     XLA's time divided by the copy's
    <!-- time CELL -->87.3 us             the kit's time
    <!-- time CELL xla -->299 us          another one's time
    <!-- machine FILE -->...<!-- / -->    the machine and the release of JAX

CELLS may be a pattern, such as rms_norm/fwd/f32/*/fresh, which gives a range,
"1.00 to 8.50".

`compare -- --publish` measures and writes; `compare -- --pages` writes what the
file of measurements says already.
"""

from __future__ import annotations

import fnmatch
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


# The pages of the tree that may have markers.
MARKED = (
    "README.md",
    "docs/*.md",
    "docs/tutorial/*.md",
    "accelerate/README.md",
    "accelerate/docs/*.md",
)


class Publication(NamedTuple):
    """Where the figures of a benchmark stand; all paths are the tree's.

    Attributes:
      data: the file of measurements.
      page: the page of all figures.
      introduction: the page's first lines.
      marked: patterns of the pages that have markers.
      bars: a picture of some figures, SVG; none if empty.
      in_words: what the bars are called -> the cell of each.
    """

    data: str
    page: str
    introduction: str
    marked: tuple[str, ...] = MARKED
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
        f"Measured on {e['day']}: {e['cores']} cores ({e['cpu']}, "
        f"{', '.join(e['isa'])}), jax {e['jax']}, huge pages on {huge}."
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


def _times(data: Mapping[str, Any], cells: str, baseline: str) -> str | None:
    above, _, below = baseline.partition("/")
    ratios = [
        cell["x"][above] / (cell["x"][below] if below else 1)
        for name, cell in data["cells"].items()
        if fnmatch.fnmatchcase(name, cells)
    ]
    if not ratios:
        return None
    least, most = digits(min(ratios)), digits(max(ratios))
    return least if least == most else f"{least} to {most}"


def _time(data: Mapping[str, Any], cell: str, whose: str) -> str | None:
    if cell not in data["cells"]:
        return None
    return duration(data["cells"][cell]["us"][whose])


def machine(data: Mapping[str, Any]) -> str:
    """The machine and the release of JAX in a few words."""
    e = data["environment"]
    return f"{e['cores']} cores of an {e['cpu']}, jax {e['jax']}, {e['day']}"


def fill(text: str, data: Mapping[str, Any], path: str) -> str:
    """The text with the figures of a file of measurements behind its markers.

    Markers of cells that the file does not have stay as they are: they are
    another file's.

    Args:
      text: of a page.
      data: the file of measurements.
      path: where that is in the tree.
    """

    def times(found: re.Match[str]) -> str:
        value = _times(data, found[2], found[3] or "xla")
        return found[0] if value is None else found[1] + value

    def time(found: re.Match[str]) -> str:
        value = _time(data, found[2], found[3] or "kit")
        return found[0] if value is None else found[1] + value

    text = re.sub(
        r"(<!-- times (\S+)(?: (\w[^>]*))? -->)[0-9.]+(?: to [0-9.]+)?",
        times,
        text,
    )
    text = re.sub(
        r"(<!-- time (\S+)(?: (\w[^>]*))? -->)[0-9.,]+ [mu]s", time, text
    )
    return re.sub(
        rf"(<!-- machine {re.escape(path)} -->)[^<]*(?=<!-- / -->)",
        lambda found: found[1] + machine(data),
        text,
    )


def pages(publication: Publication, root: pathlib.Path) -> dict[str, str]:
    """What the pages below `root` ought to contain, by path."""
    data = json.loads((root / publication.data).read_text())
    marked = {
        path.relative_to(root).as_posix(): path.read_text()
        for pattern in publication.marked
        for path in sorted(root.glob(pattern))
    }
    filled = {
        path: fill(text, data, publication.data)
        for path, text in marked.items()
    }
    return filled | {publication.page: page(publication, data)}


def write(publication: Publication, root: pathlib.Path) -> None:
    """Writes the pages and the picture below `root`."""
    for path, text in pages(publication, root).items():
        (root / path).write_text(text)
    if publication.bars:
        # Imported here: environments with another JAX have no matplotlib.
        import plot

        data = json.loads((root / publication.data).read_text())
        plot.bars(root / publication.bars, publication.in_words, data)
