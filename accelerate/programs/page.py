"""The figures of public programs, functions and loops, and their page.

A row is of a program: the medians of each run by mode, in microseconds, the
least times, and the seconds of first calls.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import measuring

TABLES = ("programs", "cells", "loops")
# What a process has in XLA_FFI_ACCELERATE.
MODES = {"plain": "", "exact": "exact", "all": "all"}
# Exact names of another wheel.
BEFORE = "before"
# Less than that is slower than JAX's own code, and no noise.
LEAST = 0.97
DATA = "accelerate/programs/measured.json"
PAGE = "accelerate/docs/measured.md"

Row = Mapping[str, Any]


def ordered(modes: Iterable[str]) -> Iterable[str]:
    """Those that there are, in one order."""
    found = set(modes)
    return (mode for mode in (*MODES, BEFORE) if mode in found)


def median(row: Row, mode: str) -> float:
    """Microseconds: of the runs' medians, the median."""
    return statistics.median(row["us"][mode])


def ratio(row: Row, mode: str, than: str = "plain") -> float:
    """How many times as fast a mode is as another one."""
    return median(row, than) / median(row, mode)


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def is_wrong(row: Row) -> bool:
    """Whether it failed, or an exact name changed what plain JAX repeats."""
    if "failed" in row:
        return True
    other = row["differs"]["exact"] and not row["differs"]["plain"]
    return bool(other or row["is far"])


def line(row: Row) -> str:
    """A row as text."""
    if "failed" in row:
        return f"{row['name']:28} FAILED: {row['failed']}"
    ratios = [f"{m} {ratio(row, m):.2f} x" for m in ("exact", "all")]
    if BEFORE in row["us"]:
        ratios.append(f"exact {ratio(row, 'exact', BEFORE):.2f} x the other")
    wrong = "  beyond the tolerance" if row["is far"] else ""
    return (
        f"{row['name']:28} {_time(median(row, 'plain')):>9}  "
        f"{'  '.join(ratios)}  first calls {_first(row)} s  arrays with other "
        f"bits: {_differences(row)}{wrong}"
    )


def summary(found: Mapping[str, Any]) -> str:
    """Means, and what is below `LEAST` in each run, of each table."""
    texts = []
    for table in TABLES:
        if rows := found["tables"].get(table):
            good = [row for row in rows if "failed" not in row]
            failed = len(rows) - len(good)
            texts.append(f"{table}: {len(good)}, {failed} failed.")
            texts += [_means(good)] if good else []
            if good and BEFORE in good[0]["us"]:
                ratios = {r["name"]: ratio(r, "exact", BEFORE) for r in good}
                worst = min(ratios, key=lambda name: ratios[name])
                texts.append(
                    f"Beside the other wheel: {mean(ratios.values()):.3f}, "
                    f"least {ratios[worst]:.3f} ({worst})."
                )
    return "\n".join(texts)


def _means(rows: Sequence[Row]) -> str:
    parts = []
    for mode in ("exact", "all"):
        ratios = {row["name"]: ratio(row, mode) for row in rows}
        worst = min(ratios, key=lambda name: ratios[name])
        parts.append(
            f"{mode} names {mean(ratios.values()):.2f} in the geometric mean, "
            f"{ratios[worst]:.2f} at least (`{worst}`)"
        )
    slower = [
        f"`{row['name']}` ({mode})"
        for mode in ("exact", "all")
        for row in rows
        if _is_slower(row, mode)
    ]
    lost = ", ".join(slower) or "none"
    return f"{'; '.join(parts)}. Below {LEAST} in each run: {lost}."


def _is_slower(row: Row, mode: str) -> bool:
    pairs = zip(row["us"]["plain"], row["us"][mode], strict=True)
    return all(plain < LEAST * time for plain, time in pairs)


def figures(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows by their tables, with the machine and the day."""
    by_table: dict[str, list[Row]] = {}
    for row in rows:
        by_table.setdefault(row["table"], []).append(row)
    (jax,) = {row["jax"] for row in rows if "jax" in row}
    return {"jax": jax, "on": _machine(), "tables": by_table}


def _machine() -> str:
    """The day, the processor, and how busy it was."""
    day, load = datetime.date.today().isoformat(), os.getloadavg()[0]
    return f"{day}, {measuring.processor()}, load {load:.1f}"


def written(found: Mapping[str, Any]) -> str:
    """A file's text, with a line for each row."""
    text = json.dumps(found)
    return text.replace('{"table"', '\n{"table"') + "\n"


def publish(root: pathlib.Path, found: Mapping[str, Any]) -> None:
    """Puts figures in the file, each table of a release whole, and the page."""
    file = root / DATA
    data = json.loads(file.read_text()) if file.exists() else {}
    of = data.setdefault(found["jax"], {})
    for table, rows in found["tables"].items():
        of[table] = {"on": found["on"], "rows": rows}
    file.write_text(written(data))
    (root / PAGE).write_text(page(data))


def page(data: Mapping[str, Any]) -> str:
    """The page's text, of figures by release of JAX and table."""
    releases = sorted(data, key=lambda v: [int(part) for part in v.split(".")])
    parts = [_INTRODUCTION]
    for table in TABLES:
        of = {jax: data[jax][table] for jax in releases if table in data[jax]}
        if of:
            parts.append(f"## {table.capitalize()}\n\n{_ABOUT[table]}")
            parts += [
                f"jax {jax}, {found['on']}: {_means(_good(found['rows']))}"
                for jax, found in of.items()
            ]
            parts.append(_table(table, of))
    return "\n\n".join(parts) + "\n"


def _good(rows: Iterable[Row]) -> list[Row]:
    """Some packages do not know the newest JAX yet."""
    return [row for row in rows if "failed" not in row]


def _table(table: str, of: Mapping[str, Any]) -> str:
    rows_of = {
        jax: {row["name"]: row for row in _good(found["rows"])}
        for jax, found in of.items()
    }
    first, *others = rows_of
    more = {
        "programs": ["first call, s", "replaced", "arrays with other bits"],
        "cells": ["x NumPy"],
    }.get(table, [])
    heading = ["", "JAX", "exact", "all", *(f"{jax}" for jax in others), *more]
    lines = []
    for name, row in rows_of[first].items():
        cells = [f"`{name}`", _time(median(row, "plain")), *_both(row)]
        for jax in others:
            other = rows_of[jax].get(name)
            cells.append(", ".join(_both(other)) if other else "-")
        if table == "programs":
            replaced = sorted(row["replaced"].items())
            cells.append(_first(row))
            cells.append(", ".join(f"`{k}` {n}" for k, n in replaced))
            cells.append(_differences(row))
        elif table == "cells":
            cells.append(f"{ratio(row, 'exact', 'NumPy'):.2f}")
        lines.append(cells)
    return measuring.table(heading, lines).rstrip()


def _both(row: Row) -> list[str]:
    return [f"{ratio(row, mode):.2f}" for mode in ("exact", "all")]


def _time(us: float) -> str:
    return f"{us:.3g} us" if us < 1000 else f"{us / 1000:.4g} ms"


def _first(row: Row) -> str:
    """Seconds of first calls: by JAX, exact and all."""
    medians = (statistics.median(row["first"][mode]) for mode in MODES)
    return ", ".join(f"{seconds:.1f}" for seconds in medians)


def _differences(row: Row) -> str:
    parts = [
        f"{'plain JAX twice' if mode == 'plain' else mode}: {count} of "
        f"{row['arrays']}"
        for mode, count in row["differs"].items()
        if count
    ]
    return "; ".join(parts) or "none"


_INTRODUCTION = """\
# Measured

`tools/bazel run //accelerate/programs:run -- --publish` writes this page and
[`measured.json`](../programs/measured.json). Processes take turns: one by JAX's
own code, one with exact names, one with all. There are several runs, each with
new processes, since a program is faster in some than in others; the medians of
runs count. A number without a unit is JAX's time divided by that of exact names
and of all names. Columns of another release of JAX have both."""
_ABOUT = {
    "programs": """\
These are of packages that nobody here wrote, from PyPI, with a real size and
without a changed line ([`public`](../programs/public)). The list was chosen
before the first measurement, and every program stays on it, also where nothing
is gained. Exact names keep every bit. Where plain JAX differs from itself in
another process, so may the others. First calls, with compilation, are by JAX,
exact and all.""",
    "cells": """\
Functions of JAX, with the shape of their operand, and NumPy's time divided by
that of exact names ([`jax_cells.py`](../benchmarks/jax_cells.py)). A call of 16
elements is mostly the call from Python. NumPy shuffles in place where JAX sorts
random keys, and looks small integers up in a table.""",
    "loops": """\
`lax.scan` over small states ([`jax_loops.py`](../benchmarks/jax_loops.py)).
With all names on, results are within 0.001 of the largest value. A loop that
was one function already gains nothing.""",
}
