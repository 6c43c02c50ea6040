"""The page and the picture of the public programs, from their figures."""

from __future__ import annotations

import json
import pathlib
import statistics
from collections.abc import Mapping
from typing import Any

from bench import modes
from bench.modes import Row, ratio
from bench.page import machine, table, written

DATA = "accelerate/programs/measured.json"
# On a processor without AVX-512, on one core of it, and on another release.
OTHERS = {
    "AVX2": "accelerate/programs/measured_avx2.json",
    "one core": "accelerate/programs/measured_one_core.json",
    "newest JAX": "accelerate/programs/measured_newest.json",
}
PAGE = "accelerate/docs/programs.md"
PICTURE = "accelerate/docs/programs.svg"
_REQUIREMENTS = pathlib.Path(__file__).absolute().parent / "requirements.in"


def is_wrong(row: Row) -> bool:
    """Whether it failed, or an exact name changed what plain JAX repeats."""
    if "failed" in row:
        return True
    return bool(row["differs"]["exact"] and not row["differs"]["plain"])


def line(row: Row) -> str:
    """A row as text."""
    if "failed" in row:
        return f"{row['name']:22} FAILED: {row['failed']}"
    exact, every = modes.both(row)
    return (
        f"{row['name']:22} {modes.least(row, 'plain'):10.2f} ms  exact "
        f"{exact:>6} x  all {every:>6} x  first calls {_first(row)} s  arrays "
        f"with other bits: {_differences(row)}"
    )


def write(root: pathlib.Path, found: Mapping[str, Any]) -> None:
    """Writes figures, page and picture."""
    e = found["environment"]
    file = DATA if e["vectors"] == "avx512f" else OTHERS["AVX2"]
    if e["cores"] == 1:
        file = OTHERS["one core"]
    if f"jax=={e['jax']}" not in _REQUIREMENTS.read_text().split():
        file = OTHERS["newest JAX"]
        # Some packages do not know it yet.
        some = [row for row in found["programs"] if "failed" not in row]
        found = {**found, "programs": some}
    (root / file).write_text(written(found, "programs"))
    (root / PAGE).write_text(page(root))
    draw(root / PICTURE, root)


def page(root: pathlib.Path) -> str:
    """The page's text, of the figures below `root`."""
    data = json.loads((root / DATA).read_text())
    others = [json.loads((root / file).read_text()) for file in OTHERS.values()]
    rows_of = [{row["name"]: row for row in o["programs"]} for o in others]
    rows = sorted(data["programs"], key=lambda row: -ratio(row, "exact"))
    heading = ["program", "what it does", "ms", "exact", "all", *OTHERS]
    cells = [[*heading, "first call, s", "replaced", "arrays with other bits"]]
    for row in rows:
        name, replaced = row["name"], sorted(row["replaced"].items())
        file = f"programs/public/{name}.py"
        about = (root / "accelerate" / file).read_text().split('"""')[1]
        cells.append(
            [
                f"[{name}](../{file})",
                about.strip().rstrip("."),
                f"{modes.least(row, 'plain'):.3g}",
                *modes.both(row),
                *(_both(found.get(name)) for found in rows_of),
                _first(row),
                ", ".join(f"`{k}` {n}" for k, n in replaced),
                _differences(row),
            ]
        )
    first = [modes.first(row) for row in rows]
    measured = (
        f"{_measured(data)} First calls take "
        f"{modes.mean(first):.2f} times as long with exact names in the "
        f"geometric mean, and {max(first):.2f} times at most. "
        f"{' '.join(map(_measured, others))}"
    )
    return f"{_INTRODUCTION}\n{measured}\n\n{table(cells)}\n"


def _measured(found: Mapping[str, Any]) -> str:
    """Where and when, the means and the least."""
    e, rows = found["environment"], found["programs"]
    exact, every, least_exact, least_every = modes.means(rows)
    cores = "one core" if e["cores"] == 1 else f"{e['cores']} cores"
    return (
        f"Measured on {e['day']} with jax {e['jax']} on {cores} ({e['cpu']}, "
        f"{e['vectors']}): the geometric mean of {len(rows)} programs is "
        f"{exact} for exact names, and {every} for all; the least are "
        f"{least_exact} and {least_every}. {_slower(rows)}"
    )


def _slower(rows: list[Row]) -> str:
    """Those that lose in each run."""
    found = modes.slower(rows, "`")
    verb = "are" if "," in found else "is"
    runs = len(rows[0]["ms"]["plain"])
    where = f"each of {runs} runs" if runs > 1 else "the only run"
    return f"Below {modes.LEAST} in {where} {verb} {found or 'none'}."


def _both(row: Row | None) -> str:
    """Exact and all, of a program that runs there."""
    return ", ".join(modes.both(row)) if row else "-"


def _first(row: Row) -> str:
    medians = (statistics.median(row["first"][mode]) for mode in modes.MODES)
    return ", ".join(f"{seconds:.1f}" for seconds in medians)


def _differences(row: Row) -> str:
    names = {"plain": "plain JAX twice", "exact": "exact", "all": "all"}
    parts = [
        f"{name}: {row['differs'][mode]} of {row['arrays']}"
        for mode, name in names.items()
        if row["differs"][mode]
    ]
    return "; ".join(parts) or "none"


def draw(path: pathlib.Path, root: pathlib.Path) -> None:
    """Writes how many times as fast each program is: SVG."""
    from bench import plot

    data = json.loads((root / DATA).read_text())
    rows = sorted(data["programs"], key=lambda row: ratio(row, "exact"))
    plot.of_modes(
        path,
        {
            "exact: JAX's own bits": [ratio(row, "exact") for row in rows],
            "all": [ratio(row, "all") for row in rows],
        },
        [row["name"] for row in rows],
        machine(data["environment"]),
    )


_INTRODUCTION = """\
# Public programs

These programs are of packages that nobody here wrote, from PyPI, with a real
size and without a changed line: `XLA_FFI_ACCELERATE` switches the package on
from outside. The list was chosen before the first measurement, and every
program stays on it, also where nothing is gained.

![Speedup over JAX's own CPU code](programs.svg)

Columns are milliseconds by JAX's own code; how many times as fast exact names
and all names are, by the least times of all runs; the same on a processor
without AVX-512, on one core of it, and with the newest JAX, which not all
packages know yet; seconds of the first call, with compilation, by JAX, exact
and all, the medians; which primitives were replaced, and how often; and how
many arrays of the result have other bits than plain JAX's. Each run has new
processes, since a program is faster in some than in others.

Exact names keep every bit. With all names, results are close. Where plain JAX
differs from itself in another process, so may the others: in `numpyro_svi`, XLA
writes the operations of the fused computation that adds the terms of the loss
in another order in each process, and LLVM then rounds other products together
with their sums.

Two threads can hinder each other in a loop of small tasks. In `numpyro_nuts`, a
process of plain JAX that has one core of the Intel processor takes 12 ms, with
exact names 10.4; one that has both takes 18.8 in the mean, with exact names
18.7. The least times, which the table has, are luckier without them.

A program gains where it sorts, selects, accumulates, draws random numbers,
pools, or factorizes and multiplies small matrices, most of all inside loops.
It gains nothing where large matrix products, gathers, segment sums, FFTs or
fused elementwise operations take its time.

`tools/bazel run //accelerate/programs:run -- --publish` writes this page; with
`--python PYTHON`, a Python that has the packages, another JAX and both wheels,
its column.
"""
