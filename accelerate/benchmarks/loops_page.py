"""The page and the picture of the benchmark of loops, from its figures."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from bench import modes
from bench.modes import Row, least
from bench.page import machine, table, written

DATA = "accelerate/benchmarks/loops.json"
PAGE = "accelerate/docs/loops.md"
PICTURE = "accelerate/docs/loops.svg"
_NAME = "Loops of small states"


def joined(runs: Sequence[Row]) -> Row:
    """The rows of a program in several runs as one; times become lists."""
    lists = {
        key: {mode: [row[key][mode] for row in runs] for mode in runs[0][key]}
        for key in ("ns", "first")
    }
    differs = next((row["differs"] for row in runs if row["differs"]), "")
    return {"name": runs[0]["name"], **lists, "differs": differs}


def line(row: Row) -> str:
    """A row as text."""
    times = "  ".join(f"{mode} {least(row, mode):7.0f}" for mode in row["ns"])
    exact, every = modes.both(row)
    return (
        f"{row['name']:32} ns a step: {times}  exact {exact:>5} x  all "
        f"{every:>6} x  {row['differs']}"
    )


def write(root: pathlib.Path, found: Mapping[str, Any]) -> None:
    """Adds the figures of a release, and writes page and picture."""
    file = root / DATA
    data = json.loads(file.read_text()) if file.exists() else {}
    data[found["jax"]] = found
    texts = [
        f"{json.dumps(k)}: {written(v, 'programs')}" for k, v in data.items()
    ]
    file.write_text("{\n" + ",".join(texts) + "}\n")
    (root / PAGE).write_text(page(data))
    if releases(data)[0] == found:  # which the picture is of
        draw(root / PICTURE, data)


def releases(data: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The figures of each release, those of the one that Bazel has first."""
    versions = sorted(data, key=lambda v: [int(part) for part in v.split(".")])
    return [data[version] for version in versions]


def page(data: Mapping[str, Any]) -> str:
    """The page's text."""
    first, *others = releases(data)
    heading = ["loop", "JAX ns", "exact x", "all ns", "all x", "C++ ns"]
    for other in others:
        of = f"jax {other['jax']}:"
        heading += [f"{of} JAX ns", f"{of} all ns", f"{of} all x"]
    cells = [heading]
    for row in first["programs"]:
        exact, every = modes.both(row)
        cells.append([row["name"], _ns(row, "plain"), exact, _ns(row, "all")])
        cells[-1] += [every, _ns(row, "C++") if "C++" in row["ns"] else ""]
        for other in others:
            same = {r["name"]: r for r in other["programs"]}.get(row["name"])
            cells[-1] += (
                [_ns(same, "plain"), _ns(same, "all"), modes.both(same)[1]]
                if same
                else [""] * 3
            )
    of = " ".join(_measured_on(found) for found in (first, *others))
    return f"{_INTRODUCTION}\n{of}\n\n{table(cells)}\n"


def _ns(row: Row, mode: str) -> str:
    value = least(row, mode)
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _measured_on(found: Mapping[str, Any]) -> str:
    rows = found["programs"]
    exact, every, least_exact, least_every = modes.means(rows)
    return (
        f"Measured on {found['day']} with jax {found['jax']} on "
        f"{found['cores']} cores ({found['cpu']}), in "
        f"{len(rows[0]['ns']['plain'])} runs or more: the geometric mean is "
        f"{exact} for exact names and {every} for all, the least {least_exact} "
        f"and {least_every}; below {modes.LEAST} in each run: "
        f"{modes.slower(rows) or 'none'}."
    )


def draw(path: pathlib.Path, data: Mapping[str, Any]) -> None:
    """Writes how many times as fast each loop is: SVG."""
    from bench import plot

    found = releases(data)[0]
    ratios = {row["name"]: modes.ratio(row, "all") for row in found["programs"]}
    names = sorted(ratios, key=lambda name: ratios[name])
    values = [ratios[name] for name in names]
    bars = {", with all names on": values}
    plot.of_modes(path, bars, names, f"{_NAME}: {machine(found)}")


_INTRODUCTION = f"""\
# {_NAME}

Filters, simulations, controllers, solvers and samplers are `lax.scan` and
`while_loop` over small states. XLA's CPU compiler makes one function of such a
loop, and a step takes 10 to 100 ns, unless an operation of its body cannot be
in the function: a matrix product of more than a few elements, a solve, a sort,
an FFT, a scatter of several indices. Then each operation of the body is a task,
and a step takes 0.5 to 20 us.

With all names on, small instances of these operations are written out in
plain HLO inside loops, so that the loop stays one function. Up to jax 0.10,
XLA also makes tasks of any loop that reads and writes more than 1,024 bytes a
step; `enable("loops")`, a part of `enable(exact=False)`, sets XLA's own option
for that. It has to come before the first array, or in the environment as
`XLA_FFI_ACCELERATE=all`. [`explain`](accelerate.md) says of each loop of a
program whether it is one function, and which operation is to blame if it is
not.

![Speedup over JAX's own CPU code](loops.svg)

Columns are nanoseconds a step and times as fast (x): JAX's own code, exact
names, all names, and C++ by hand, which computes all products, also those with
zeros of a model. Times are the least of several runs, each with new processes.
Results of exact names have JAX's own bits; with all names they are within
{1e-3:g} of the largest value. A loop that was one function already gains
nothing: where no rule applies, XLA compiles the same program, and what differs
from 1.00 is noise. `tools/bazel run //accelerate/benchmarks:loops -- --publish`
writes this page.
"""
