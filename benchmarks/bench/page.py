"""Files of measurements, and the pages that say their figures.

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

import datetime
import fnmatch
import json
import math
import os
import pathlib
import platform
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Data = Mapping[str, Any]
_ISAS = ("avx512f", "avx2", "f16c", "fma", "asimd")
_HUGE = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
_CPU = pathlib.Path("/proc/cpuinfo")

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
      plot: the picture of all ratios; none if empty.
      bars: a picture of some figures, SVG; none if empty.
      in_words: what the bars are called -> the cell of each.
    """

    data: str
    page: str
    introduction: str
    plot: str = ""
    bars: str = ""
    in_words: Mapping[str, str] = {}


def environment(**versions: str) -> dict[str, Any]:
    """Versions and machine."""
    text = _CPU.read_text() if _CPU.exists() else ""
    models = [s for s in text.splitlines() if s.startswith("model name")]
    flags = set(text.split())
    return {
        **versions,
        "cpu": models[0].partition(": ")[2] if models else platform.machine(),
        "day": datetime.date.today().isoformat(),
        "cores": len(os.sched_getaffinity(0)),
        "isa": [isa for isa in _ISAS if isa in flags],
        "thread limit": os.environ.get("XLA_FFI_KIT_THREADS", "none"),
        "huge pages": _HUGE.read_text().strip() if _HUGE.exists() else "none",
        "load": round(os.getloadavg()[0], 1),
    }


def machine(environment: Data) -> str:
    """The machine, the release of JAX and the day in a few words."""
    e = environment
    return f"{e['cores']} cores of an {e['cpu']}, jax {e['jax']}, {e['day']}"


def digits(value: float) -> str:
    """Three digits, and at least two of them decimals below ten."""
    return f"{value:.{max(0, min(2, 2 - math.floor(math.log10(value))))}f}"


def duration(microseconds: float) -> str:
    """With its unit, to three digits."""
    if microseconds < 1000:
        return f"{microseconds:.3g} us"
    milliseconds = microseconds / 1000
    is_long = milliseconds >= 1000
    return f"{milliseconds:{',.0f' if is_long else '.3g'}} ms"


def table(rows: Sequence[Sequence[object]]) -> str:
    """Rows as Markdown; the first is the heading."""
    heading, *others = rows
    ruled = [heading, ["---"] * len(heading), *others]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in ruled)


def written(data: Data, rows: str) -> str:
    """The text of a file, with a line for each element of its last value."""
    head = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in data.items()][:-1]
    if isinstance(data[rows], Mapping):
        found = data[rows].items()
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found]
        begin, end = "{}"
    else:
        lines = [json.dumps(row) for row in data[rows]]
        begin, end = "[]"
    body = ",\n".join(lines)
    return ",\n".join(
        ["{\n" + head[0], *head[1:], f'"{rows}": {begin}\n{body}\n{end}}}\n']
    )


def _page(publication: Publication, data: Data) -> str:
    """The text of the page of all figures."""
    newest = data["newest"].get("x", {})
    ratios = {
        name: cell["x"] | ({"newest": newest[name]} if name in newest else {})
        for name, cell in data["cells"].items()
    }
    columns = [c for c in _COLUMNS if any(c in x for x in ratios.values())]
    rows = [["cell", "XLA", "kit", *(_COLUMNS[c] for c in columns)]]
    for name, cell in data["cells"].items():
        times = (cell["us"].get(c) for c in ("xla", "kit"))
        took = ("-" if time is None else duration(time) for time in times)
        found = (ratios[name].get(c) for c in columns)
        cells = ("-" if ratio is None else digits(ratio) for ratio in found)
        rows.append([f"`{name}`", *took, *cells])
    below = sum(cell["x"]["xla"] < 1 for cell in data["cells"].values())
    text = f"XLA's own code is faster in {below} of the {len(ratios)} cells."
    if newest:
        text += f' "Newest JAX" is {data["newest"]["jax"]}.'
    e = data["environment"]
    # Linux writes "always [madvise] never".
    huge = re.sub(r".*\[(\w+)\].*", r"\1", e["huge pages"])
    return (
        f"{publication.introduction}\nMeasured on {e['day']}: {e['cores']} "
        f"cores ({e['cpu']}, {', '.join(e['isa'])}), jax {e['jax']}, huge "
        f"pages on {huge}.\n\n{textwrap.fill(text, 80)}\n\n{table(rows)}\n"
    )


def _times(data: Data, cells: str, baseline: str) -> str | None:
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


def _time(data: Data, cell: str, whose: str) -> str | None:
    found = data["cells"].get(cell)
    return duration(found["us"][whose]) if found else None


# Marker -> what gives its figure, of whom if it does not say, and the figure.
_MARKERS = {
    "times": (_times, "xla", r"[0-9.]+(?: to [0-9.]+)?"),
    "time": (_time, "kit", r"[0-9.,]+ [mu]s"),
}


def fill(text: str, data: Data, path: str) -> str:
    """The text with the figures of a file of measurements behind its markers.

    Markers of cells that the file does not have stay as they are: they are
    another file's.

    Args:
      text: of a page.
      data: the file of measurements.
      path: where that is in the tree.
    """
    for word, (figure, whose, old) in _MARKERS.items():

        def filled(
            found: re.Match[str], figure: Any = figure, whose: str = whose
        ) -> str:
            value = figure(data, found[2], found[3] or whose)
            return found[0] if value is None else found[1] + value

        marker = rf"(<!-- {word} (\S+)(?: (\w[^>]*))? -->){old}"
        text = re.sub(marker, filled, text)
    return re.sub(
        rf"(<!-- machine {re.escape(path)} -->)[^<]*(?=<!-- / -->)",
        lambda found: found[1] + machine(data["environment"]),
        text,
    )


def pages(publication: Publication, root: pathlib.Path) -> dict[str, str]:
    """What the pages below `root` ought to contain, by path."""
    data = json.loads((root / publication.data).read_text())
    marked = {
        path.relative_to(root).as_posix(): path.read_text()
        for pattern in MARKED
        for path in sorted(root.glob(pattern))
    }
    filled = {p: fill(t, data, publication.data) for p, t in marked.items()}
    return filled | {publication.page: _page(publication, data)}


def write(publication: Publication, root: pathlib.Path) -> None:
    """Writes the pages and the picture of some figures below `root`."""
    for path, text in pages(publication, root).items():
        (root / path).write_text(text)
    if publication.bars:
        # Imported here: environments with another JAX have no matplotlib.
        from bench import plot

        data = json.loads((root / publication.data).read_text())
        plot.beside_numpy(root / publication.bars, publication.in_words, data)
