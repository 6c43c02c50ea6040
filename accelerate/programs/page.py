"""The page and the picture of the public programs, from their figures."""

from __future__ import annotations

import datetime
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

DATA = "accelerate/programs/measured.json"
AVX2 = "accelerate/programs/measured_avx2.json"
ONE_CORE = "accelerate/programs/measured_one_core.json"
PAGE = "accelerate/docs/programs.md"
PICTURE = "accelerate/docs/programs.svg"

# Less than that is slower than JAX's own code, and no noise.
LEAST = 0.97
_COMPARED = ("plain", "exact")

Row = Mapping[str, Any]


def circumstances(python: str) -> dict[str, Any]:
    """Machine, day and releases."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [s.partition(": ")[2] for s in lines if s.startswith("model name")]
    flags = {f for s in lines if s.startswith("flags") for f in s.split()}
    vectors = [v for v in ("avx512f", "avx2") if v in flags]
    ask = "import jax; print(jax.__version__)"
    jax = subprocess.run([python, "-c", ask], stdout=subprocess.PIPE, text=True)
    return {
        "jax": jax.stdout.strip(),
        "cpu": models[0] if models else platform.machine(),
        "vectors": vectors[0] if vectors else "none",
        "cores": len(os.sched_getaffinity(0)),
        "day": datetime.date.today().isoformat(),
        "load": round(os.getloadavg()[0], 1),
    }


def ratio(row: Row, mode: str) -> float:
    """How many times as fast as plain JAX, by the least times of all runs."""
    return float(min(row["ms"]["plain"]) / min(row["ms"][mode]))


def is_slower(row: Row, mode: str) -> bool:
    """Whether it is slower than plain JAX in each of the runs."""
    pairs = zip(row["ms"]["plain"], row["ms"][mode], strict=True)
    return all(plain < LEAST * ms for plain, ms in pairs)


def first(row: Row) -> float:
    """How long the first call takes with exact names, of plain JAX's."""
    plain, exact = (statistics.median(row["first"][m]) for m in _COMPARED)
    return exact / plain


def is_wrong(row: Row) -> bool:
    """Whether it failed, or an exact name changed what plain JAX repeats."""
    if "failed" in row:
        return True
    return bool(row["differs"]["exact"] and not row["differs"]["plain"])


def line(row: Row) -> str:
    """A row as text."""
    if "failed" in row:
        return f"{row['name']:22} FAILED: {row['failed']}"
    return (
        f"{row['name']:22} {min(row['ms']['plain']):10.2f} ms  exact "
        f"{ratio(row, 'exact'):6.2f} x  all {ratio(row, 'all'):6.2f} x  first "
        f"calls {_first(row)} s  arrays with other bits: {_differences(row)}"
    )


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def summary(rows: Sequence[Row]) -> str:
    """Means and the least."""
    good = [row for row in rows if "failed" not in row]
    texts = [f"{len(good)} programs, {len(rows) - len(good)} failed"]
    for mode in ("exact", "all") if good else ():
        least = min(good, key=lambda row, mode=mode: ratio(row, mode))
        texts.append(
            f"{mode}: geometric mean {mean([ratio(r, mode) for r in good]):.2f}"
            f" x, least {ratio(least, mode):.2f} x ({least['name']})"
        )
    if good:
        most = max(good, key=first)
        texts.append(
            f"first calls, exact: geometric mean {mean(map(first, good)):.2f}"
            f" of plain JAX's, most {first(most):.2f} ({most['name']})"
        )
    return "\n".join(texts)


def written(found: Mapping[str, Any]) -> str:
    """The text of the file of figures, with a line for each program."""
    head = {k: v for k, v in found.items() if k != "programs"}
    rows = ",\n".join(json.dumps(row) for row in found["programs"])
    return f'{{"environment": {json.dumps(head)},\n"programs": [\n{rows}\n]}}\n'


def write(root: str, found: Mapping[str, Any]) -> None:
    """Writes figures, page and picture."""
    wide = DATA if found["vectors"] == "avx512f" else AVX2
    file = wide if found["cores"] > 1 else ONE_CORE
    pathlib.Path(root, file).write_text(written(found))
    data, avx2, one = (
        json.loads(pathlib.Path(root, file).read_text())
        for file in (DATA, AVX2, ONE_CORE)
    )
    about = pathlib.Path(__file__).absolute().parent / "public"
    pathlib.Path(root, PAGE).write_text(page(data, avx2, one, about))
    draw(pathlib.Path(root, PICTURE), data)


def page(
    data: Mapping[str, Any],
    avx2: Mapping[str, Any],
    one: Mapping[str, Any],
    folder: pathlib.Path,
) -> str:
    """The page's text, with what each program's file says it is.

    `data` was measured on a processor with AVX-512, `avx2` on one without, and
    `one` on one core.
    """
    others = avx2, one
    rows_of = [{row["name"]: row for row in o["programs"]} for o in others]
    rows = sorted(data["programs"], key=lambda row: -ratio(row, "exact"))
    heading = ["program", "what it does", "ms", "exact", "all"]
    heading += ["AVX2", "one core"]
    heading += ["first call, s", "replaced", "arrays with other bits"]
    table = [heading, ["---"] * len(heading)]
    for row in rows:
        table.append(
            [
                f"[{row['name']}](../programs/public/{row['name']}.py)",
                _about(folder / f"{row['name']}.py"),
                f"{min(row['ms']['plain']):.3g}",
                f"{ratio(row, 'exact'):.2f}",
                f"{ratio(row, 'all'):.2f}",
                *(_both(found[row["name"]]) for found in rows_of),
                _first(row),
                ", ".join(
                    f"`{k}` {n}" for k, n in sorted(row["replaced"].items())
                ),
                _differences(row),
            ]
        )
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in table)
    measured = (
        f"{_measured(data)} {_slower(rows)} First calls take "
        f"{mean(map(first, rows)):.2f} times as long with exact names in the "
        f"geometric mean, and {max(map(first, rows)):.2f} times at most. "
        f"{' '.join(map(_measured, others))}"
    )
    return f"{_INTRODUCTION}\n{measured}\n\n{text}\n"


def _measured(found: Mapping[str, Any]) -> str:
    """Where and when, the means and the least."""
    e, rows = found["environment"], found["programs"]
    exact, every = ([ratio(r, m) for r in rows] for m in ("exact", "all"))
    cores = "one core" if e["cores"] == 1 else f"{e['cores']} cores"
    return (
        f"Measured on {e['day']} with jax {e['jax']} on {cores} ({e['cpu']}, "
        f"{e['vectors']}): the geometric mean of {len(rows)} programs is "
        f"{mean(exact):.2f} for exact names, and {mean(every):.2f} for all; "
        f"the least are {min(exact):.2f} and {min(every):.2f}."
    )


def _both(row: Row) -> str:
    return f"{ratio(row, 'exact'):.2f}, {ratio(row, 'all'):.2f}"


def _slower(rows: Sequence[Row]) -> str:
    """Those that lose in each run, by mode."""
    runs = len(rows[0]["ms"]["plain"])
    found = [
        f"`{row['name']}` ({mode})"
        for mode in ("exact", "all")
        for row in rows
        if is_slower(row, mode)
    ]
    verb = "is" if len(found) < 2 else "are"
    return (
        f"Below {LEAST} in each of {runs} runs {verb} "
        f"{', '.join(found) or 'none'}."
    )


def _first(row: Row) -> str:
    return ", ".join(
        f"{statistics.median(row['first'][m]):.1f}"
        for m in ("plain", "exact", "all")
    )


def _about(file: pathlib.Path) -> str:
    return file.read_text().split('"""')[1].strip().rstrip(".")


def _differences(row: Row) -> str:
    differs = row["differs"]
    if not any(differs.values()):
        return "none"
    of = f"of {row['arrays']}"
    parts = []
    if differs["plain"]:
        parts.append(f"plain JAX twice: {differs['plain']} {of}")
    if differs["exact"]:
        parts.append(f"exact: {differs['exact']} {of}")
    if differs["all"]:
        parts.append(f"all: {differs['all']} {of}")
    return "; ".join(parts)


def draw(path: pathlib.Path, data: Mapping[str, Any]) -> None:
    """Writes how many times as fast each program is: SVG."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    rows = sorted(data["programs"], key=lambda row: ratio(row, "exact"))
    figure, axes = plt.subplots(
        figsize=(8, 1 + 0.25 * len(rows)), layout="constrained"
    )
    for shift, mode, color in ((0.2, "exact", "C0"), (-0.2, "all", "C1")):
        values = [ratio(row, mode) for row in rows]
        places = [place + shift for place in range(len(rows))]
        label = "exact: JAX's own bits" if mode == "exact" else "all"
        drawn = axes.barh(places, values, 0.4, color=color, label=label)
        axes.bar_label(
            drawn, [f"{v:.2f}" for v in values], padding=3, fontsize="x-small"
        )
    axes.set_yticks(range(len(rows)), [row["name"] for row in rows])
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(
        0.5, 2 * max(ratio(r, m) for r in rows for m in ("exact", "all"))
    )
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("times as fast as JAX's own code")
    e = data["environment"]
    title = f"{e['cores']} cores of an {e['cpu']}, jax {e['jax']}, {e['day']}"
    axes.set_title(title, fontsize="medium")
    axes.legend(loc="lower right")
    # Text stays text; no date and no random names, so that the same figures
    # give the same file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "programs"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    plt.close(figure)


_INTRODUCTION = """\
# Public programs

These programs are of packages that nobody here wrote, from PyPI, with a real
size and without a changed line: `XLA_FFI_ACCELERATE` switches the package on
from outside. The list was chosen before the first measurement, and every
program stays on it, also where nothing is gained.

![Speedup over JAX's own CPU code](programs.svg)

Columns are milliseconds by JAX's own code; how many times as fast exact names
and all names are, by the least times of all runs; the same on a processor
without AVX-512, and on one core of it; seconds of the first call, with
compilation, by JAX, exact and all, the medians; which primitives were replaced,
and how often; and how many arrays of the result have other bits than plain
JAX's. Each run has new processes, since a program is faster in some than in
others.

Exact names keep every bit. With all names, results are close. Where plain JAX
differs from itself in another process, so may the others: in `numpyro_svi`, XLA
writes the operations of the fused computation that adds the terms of the loss
in another order in each process, and LLVM then rounds other products together
with their sums.

A program gains where it sorts, selects, accumulates, draws random numbers,
pools, or factorizes and multiplies small matrices, most of all inside loops.
It gains nothing where large matrix products, gathers, segment sums, FFTs or
fused elementwise operations take its time.

`tools/bazel run //accelerate/programs:run -- --publish` writes this page.
"""
