"""The page and the picture of the benchmark of loops, from its figures."""

from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
import platform
from collections.abc import Mapping, Sequence
from typing import Any

DATA = "accelerate/benchmarks/loops.json"
PAGE = "accelerate/docs/loops.md"
PICTURE = "accelerate/docs/loops.svg"
_NAME = "Loops of small states"

# Less than that is slower than JAX's own code, and no noise.
LEAST = 0.97

Row = Mapping[str, Any]


def circumstances(jax: str) -> dict[str, Any]:
    """Machine, day and release."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [s.partition(": ")[2] for s in lines if s.startswith("model name")]
    return {
        "jax": jax,
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "day": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 1),
    }


def joined(runs: Sequence[Row]) -> Row:
    """The rows of a program in several runs as one; times become lists."""
    lists = {
        key: {mode: [row[key][mode] for row in runs] for mode in runs[0][key]}
        for key in ("ns", "first")
    }
    differs = next((row["differs"] for row in runs if row["differs"]), "")
    return {"name": runs[0]["name"], **lists, "differs": differs}


def ratio(row: Row, mode: str) -> float:
    """How many times as fast as JAX's own code, by the least of all runs."""
    return least(row, "plain") / least(row, mode)


def least(row: Row, mode: str) -> float:
    """Nanoseconds a step in the fastest run."""
    return float(min(row["ns"][mode]))


def slower(rows: Sequence[Row], mode: str) -> list[str]:
    """The loops that are slower than JAX's own code in each of the runs."""
    return [
        row["name"]
        for row in rows
        if all(
            plain < LEAST * ns
            for plain, ns in zip(
                row["ns"]["plain"], row["ns"][mode], strict=True
            )
        )
    ]


def line(row: Row) -> str:
    """A row as text."""
    times = "  ".join(f"{mode} {least(row, mode):7.0f}" for mode in row["ns"])
    return (
        f"{row['name']:32} ns a step: {times}  exact {ratio(row, 'exact'):5.2f}"
        f" x  all {ratio(row, 'all'):6.2f} x  {row['differs']}"
    )


def mean(ratios: Sequence[float]) -> float:
    """The geometric mean."""
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios))


def summary(rows: Sequence[Row]) -> str:
    """Means and the least."""
    texts = []
    for mode in ("exact", "all"):
        worst = min(rows, key=lambda row, mode=mode: ratio(row, mode))
        texts.append(
            f"{mode}: geometric mean {mean([ratio(r, mode) for r in rows]):.2f}"
            f" x, least {ratio(worst, mode):.2f} x ({worst['name']}), below "
            f"{LEAST} in each run: {', '.join(slower(rows, mode)) or 'none'}"
        )
    return "\n".join(texts)


def write(root: str, found: Mapping[str, Any]) -> None:
    """Adds the figures of a release, and writes page and picture."""
    file = pathlib.Path(root, DATA)
    data = json.loads(file.read_text()) if file.exists() else {}
    data[found["jax"]] = found
    file.write_text(json.dumps(data, indent=1) + "\n")
    pathlib.Path(root, PAGE).write_text(page(data))
    if main_release(data) == found:  # which the picture is of
        draw(pathlib.Path(root, PICTURE), data)


def main_release(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The release whose figures come first: the one that Bazel has."""
    first: Mapping[str, Any] = data[min(data, key=_version)]
    return first


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def page(data: Mapping[str, Any]) -> str:
    """The page's text."""
    first = main_release(data)
    others = [data[v] for v in sorted(data, key=_version) if data[v] != first]
    heading = ["loop", "JAX ns", "exact x", "all ns", "all x", "C++ ns"]
    for other in others:
        of = f"jax {other['jax']}:"
        heading += [f"{of} JAX ns", f"{of} all ns", f"{of} all x"]
    table = [heading, ["---"] * len(heading)]
    for row in first["programs"]:
        cells = [
            row["name"],
            _ns(row, "plain"),
            f"{ratio(row, 'exact'):.2f}",
            _ns(row, "all"),
            f"{ratio(row, 'all'):.2f}",
            _ns(row, "C++") if "C++" in row["ns"] else "",
        ]
        for other in others:
            same = {r["name"]: r for r in other["programs"]}.get(row["name"])
            cells += (
                [
                    _ns(same, "plain"),
                    _ns(same, "all"),
                    f"{ratio(same, 'all'):.2f}",
                ]
                if same
                else [""] * 3
            )
        table.append(cells)
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    of = " ".join(_measured_on(found) for found in (first, *others))
    return f"{_INTRODUCTION}\n{of}\n\n{text}\n"


def _ns(row: Row, mode: str) -> str:
    value = least(row, mode)
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _measured_on(found: Mapping[str, Any]) -> str:
    rows = found["programs"]
    exact, every = ([ratio(row, m) for row in rows] for m in ("exact", "all"))
    lost = [
        f"{name} ({mode})"
        for mode in ("exact", "all")
        for name in slower(rows, mode)
    ]
    return (
        f"Measured on {found['day']} with jax {found['jax']} on "
        f"{found['cores']} cores ({found['cpu']}), in "
        f"{len(rows[0]['ns']['plain'])} runs or more: the geometric mean is "
        f"{mean(exact):.2f} for exact names and {mean(every):.2f} for all, the "
        f"least {min(exact):.2f} and {min(every):.2f}; below {LEAST} in each "
        f"run: {', '.join(lost) or 'none'}."
    )


def draw(path: pathlib.Path, data: Mapping[str, Any]) -> None:
    """Writes how many times as fast each loop is: SVG."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    found = main_release(data)
    rows = sorted(found["programs"], key=lambda row: ratio(row, "all"))
    height = 0.9 + 0.2 * len(rows)
    figure, axes = plt.subplots(figsize=(8, height), layout="constrained")
    values = [ratio(row, "all") for row in rows]
    drawn = axes.barh(range(len(rows)), values, 0.7)
    axes.bar_label(drawn, [f"{v:.2f}" for v in values], padding=3)
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(0.5, 2 * max(values))
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("times as fast as JAX's own code, with all names on")
    axes.set_title(
        f"{_NAME}: {found['cores']} cores of an {found['cpu']}, jax "
        f"{found['jax']}, {found['day']}",
        fontsize="medium",
    )
    # Text stays text; no date and no random names, so that the same figures
    # give the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "loops"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)


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
