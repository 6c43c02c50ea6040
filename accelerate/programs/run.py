"""What the package gains: public programs, single functions, small loops.

    tools/bazel run //accelerate/programs:run [-- --tables programs --only ott]
    tools/bazel run //accelerate/programs:run -- --publish
    tools/bazel run //accelerate/programs:run -- --against WHEEL

The public programs' packages are installed from the lock, by hash, into an
environment of their own, once; what runs downloads nothing. Each program runs
in processes that take turns: by JAX's own code, with XLA_FFI_ACCELERATE=exact
and with all. That is a run, and there are several, each with new processes,
since one and the same program is faster in some processes than in others. The
medians of turns and of runs count. Every array of the results is compared, bit
for bit; what differs between two plain processes differs by itself.

With --python, a Python that has the packages and any release of JAX, what is
published is that release's columns. With --against, another wheel of the
package, exact names of that wheel take turns too.

With pip alone: `PYTHONPATH=tests/compat:benchmarks python
accelerate/programs/run.py --python PYTHON --wheels KIT ACCELERATE`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import hashlib
import os
import pathlib
import statistics
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import environments
import numpy as np
import page
from worker import Worker

import measuring

HERE = pathlib.Path(__file__).absolute().parent
# The folders that a process imports from: the tables' modules, and the timer.
FOLDERS = [
    str(HERE / "public"),
    str(HERE.parent / "benchmarks"),
    str(pathlib.Path(measuring.__file__).absolute().parent),
]
PYTHONS = ("3.11", "3.12", "3.13")
# f32: what is summed in another order is off by so much of the largest.
TOLERANCE = 1e-3


class Contestant(NamedTuple):
    """The Python of an environment, and the variable's value there."""

    python: str
    setting: str


class Item(NamedTuple):
    """A program: of which table, its name, and what makes its call."""

    table: str
    name: str
    call: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs them; the number that failed or have other bits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", choices=page.TABLES, default=[])
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
    parser.add_argument("--runs", type=int, default=3, help="of new processes")
    parser.add_argument("--rounds", type=int, default=3, help="of each run")
    parser.add_argument("--seconds", type=float, default=0.3, help="of a turn")
    parser.add_argument("--python", help="that has the packages")
    parser.add_argument("--wheels", nargs="+", default=[], help="not Bazel's")
    parser.add_argument("--against", nargs="+", default=[], metavar="WHEEL")
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args(arguments)
    items = list(chosen(options.tables or page.TABLES, options.only))
    if not items:
        parser.error(f"--only: no program has any of {options.only}")
    if options.one_core:  # also of the processes that are started
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    # Public programs share no process; functions and loops do in each run.
    groups: dict[Item | str, list[Item]] = {}
    for item in items:
        key = item if item.table == "programs" else item.table
        groups.setdefault(key, []).append(item)
    rows = []
    with contestants_of(options) as contestants:
        for group in groups.values():
            rows += measured(group, contestants, options)
    found = page.figures(rows)
    print(page.summary(found))
    if options.json:
        pathlib.Path(options.json).write_text(page.written(found))
    if options.publish:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")
        page.publish(pathlib.Path(root), found)
    return sum(page.is_wrong(row) for row in rows)


def chosen(tables: Sequence[str], words: Sequence[str]) -> Iterator[Item]:
    """The programs of some tables that have any of the words in their name."""
    # They are imported here: they import JAX.
    import jax_cells
    import jax_loops

    of = {
        "programs": {name: (name, "program") for name in programs()},
        "cells": {n: ("jax_cells", "program", n) for n in jax_cells.names()},
        "loops": {n: ("jax_loops", "program", n) for n in jax_loops.loops()},
    }
    for table in tables:
        for name, call in of[table].items():
            if not words or any(word in name for word in words):
                yield Item(table, name, call)


def programs() -> list[str]:
    """The public programs."""
    found = sorted(file.stem for file in (HERE / "public").glob("*.py"))
    return [name for name in found if name != "__init__"]  # Bazel's own


@contextlib.contextmanager
def contestants_of(
    options: argparse.Namespace,
) -> Iterator[dict[str, Contestant]]:
    """Name -> contestant; their environments last as long as the block."""
    wheels = [pathlib.Path(w) for w in options.wheels] or environments.wheels()
    base = pathlib.Path(options.python) if options.python else _locked()
    with contextlib.ExitStack() as stack:

        def installed(some: Sequence[pathlib.Path]) -> str:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            return str(environments.install(some, base, folder))

        python = installed(wheels)
        found = {m: Contestant(python, s) for m, s in page.MODES.items()}
        if options.against:
            other = {_project(w): pathlib.Path(w) for w in options.against}
            own = {_project(w): w for w in wheels}
            before = installed([*(own | other).values()])
            found[page.BEFORE] = Contestant(before, "exact")
        yield found


def _project(wheel: str | pathlib.Path) -> str:
    return pathlib.Path(wheel).name.split("-")[0]


def _locked() -> pathlib.Path:
    lock = HERE / "requirements_lock.txt"
    python = environments.find_python(PYTHONS)
    return environments.filled(lock, python, "programs")


def measured(
    group: Sequence[Item],
    contestants: Mapping[str, Contestant],
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    """The rows of programs that share their processes, of each run."""
    runs: dict[Item, list[dict[str, Any]]] = {item: [] for item in group}
    said = ""
    with tempfile.TemporaryFile() as log:
        try:
            for i in range(options.runs):
                # Another one starts first in each run: the first call of those
                # that start later may be slower, with processes beside them.
                order = collections.deque(contestants.items())
                order.rotate(i)
                with _workers(order, log) as workers:
                    for item in group:
                        runs[item].append(_run(item, workers, options))
        except EOFError:
            log.seek(0)
            text = log.read().decode(errors="replace").strip()
            (said,) = text.splitlines()[-1:] or ["it said nothing"]
    for item in group:
        row: dict[str, Any] = {"table": item.table, "name": item.name}
        row |= {"failed": said} if said else _row(runs[item])
        if item.table == "cells" and not said:
            row["us"]["NumPy"] = [_numpy(item.name, options.seconds)]
        print(page.line(row), flush=True)
        yield row


@contextlib.contextmanager
def _workers(
    order: Iterable[tuple[str, Contestant]], log: Any
) -> Iterator[dict[str, Worker]]:
    with contextlib.ExitStack() as stack:
        workers = {}
        for mode, of in order:
            worker = Worker(of.setting, FOLDERS, of.python, log)
            workers[mode] = stack.enter_context(contextlib.closing(worker))
        yield workers


def _run(
    item: Item, workers: Mapping[str, Worker], options: argparse.Namespace
) -> dict[str, Any]:
    """What each mode shows in a run; arrays become digests."""
    found = {mode: w.first(*item.call) for mode, w in workers.items()}
    plain, every = (found[mode]["leaves"] for mode in ("plain", "all"))
    is_far = item.table != "programs" and not _are_close(plain, every)
    for one in found.values():
        one["leaves"] = [_digest(x) for x in one["leaves"]]
    times: dict[str, list[tuple[float, float]]] = {m: [] for m in workers}
    for _ in range(options.rounds):
        for mode, worker in workers.items():
            times[mode].append(worker.times(options.seconds))
    for mode, rounds in times.items():
        medians, leasts = zip(*rounds, strict=True)
        found[mode]["median"] = statistics.median(medians)
        found[mode]["least"] = min(leasts)
    found["all"]["is far"] = is_far
    return found


def _row(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    want, modes = runs[0]["plain"]["leaves"], list(page.ordered(runs[0]))
    times = {
        key: {m: [_short(run[m][of] * 1e6) for run in runs] for m in modes}
        for key, of in (("us", "median"), ("least", "least"))
    }
    return times | {
        "first": {m: [_short(run[m]["first"]) for run in runs] for m in modes},
        "arrays": len(want),
        "differs": {
            mode: max(_differ(want, run[mode]["leaves"]) for run in runs)
            for mode in modes
        },
        "is far": any(run["all"]["is far"] for run in runs),
        "replaced": runs[0]["all"]["replaced"],
        "jax": runs[0]["plain"]["jax"],
    }


def _short(time: float) -> float:
    """With six digits that count: even a microsecond's is never 0."""
    return float(f"{time:.6g}")


def _digest(x: Any) -> tuple[str, tuple[int, ...], str]:
    digest = hashlib.sha256(np.ascontiguousarray(x).view(np.uint8))
    return str(x.dtype), x.shape, digest.hexdigest()


def _differ(xs: Sequence[object], ys: Sequence[object]) -> int:
    """How many arrays differ in a bit."""
    return sum(x != y for x, y in zip(xs, ys, strict=True))


def _are_close(xs: Sequence[Any], ys: Sequence[Any]) -> bool:
    return all(_is_close(x, y) for x, y in zip(xs, ys, strict=True))


def _is_close(x: Any, y: Any) -> bool:
    if not np.issubdtype(x.dtype, np.inexact):
        return bool(x.tobytes() == y.tobytes())
    size = np.abs(x).max(initial=1e-6)
    return bool(np.abs(x - y).max(initial=0) <= TOLERANCE * size)


def _numpy(name: str, seconds: float) -> float:
    import jax_cells

    found = measuring.turns({"": jax_cells.numpy(name)}, seconds)[""]
    return _short(found.median * 1e6)


if __name__ == "__main__":
    sys.exit(main())
