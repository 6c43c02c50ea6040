"""Public programs with and without the package.

    tools/bazel run //accelerate/programs:run [-- --only ott numpyro_nuts]
    tools/bazel run //accelerate/programs:run -- --publish [--one-core]

The packages are installed from the lock, by hash, into an environment of their
own, once; what runs downloads nothing. Each program runs in processes that take
turns: by JAX's own code, with XLA_FFI_ACCELERATE=exact, and with
XLA_FFI_ACCELERATE=all. That is a run, and there are several, each with new
processes, since one and the same program is faster in some processes than in
others. Of each mode the least time of all rounds counts, since other work on
the machine only adds, and the median of the first calls. Every array of the
results is compared, bit for bit; what differs between two plain processes
differs by itself.

With pip alone: install requirements_lock.txt with --no-deps and both wheels,
then
`PYTHONPATH=tests/compat:benchmarks python accelerate/programs/run.py
--python PYTHON`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import pathlib
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import packages
import page

from bench import modes
from bench.modes import MODES
from bench.page import environment, written
from bench.worker import Worker, take_turns

HERE = pathlib.Path(__file__).absolute().parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs them; the number that failed or have other bits."""
    parser = modes.parser(__doc__, rounds=2, seconds=0.5)
    parser.add_argument("--python", help="that has the packages and the wheels")
    parser.add_argument("--one-core", action="store_true")
    options = parser.parse_args(arguments)
    all_names = [program.stem for program in programs()]
    names = modes.chosen(parser, all_names, options.only)
    if options.one_core:  # also of the processes that are started
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or packages.installed(
            HERE / "requirements_lock.txt", "programs", folder
        )
        rows, jax = [], ""
        for name in names:
            row = measured(python, HERE / "public", name, options)
            jax = row.pop("jax", jax)
            print(page.line(row), flush=True)
            rows.append(row)
    print(modes.summary(rows))
    about = environment(jax=jax)
    wide = [v for v in about["isa"] if v in ("avx512f", "avx2")]
    about["vectors"] = wide[0] if wide else "none"
    found = {"environment": about, "programs": rows}
    if options.json:
        pathlib.Path(options.json).write_text(written(found, "programs"))
    if options.publish:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")
        page.write(pathlib.Path(root), found)
    return sum(page.is_wrong(row) for row in rows)


def programs() -> list[pathlib.Path]:
    """All of them."""
    found = (HERE / "public").glob("*.py")
    return sorted(p for p in found if p.stem != "__init__")  # Bazel's own


def measured(
    python: str, folder: pathlib.Path, name: str, options: argparse.Namespace
) -> dict[str, Any]:
    """The row of a program."""
    with tempfile.TemporaryFile() as log:

        def start(mode: str) -> Worker:
            return Worker(MODES[mode], [str(folder)], python, log)

        try:
            runs = [_run(start, name, options, i) for i in range(options.runs)]
        except EOFError:
            log.seek(0)
            text = log.read().decode(errors="replace").strip()
            last = text.splitlines()[-1:] or ["it said nothing"]
            return {"name": name, "failed": last[0]}
    return {"name": name, **_row(runs)}


def _run(
    start: Callable[[str], Worker],
    name: str,
    options: argparse.Namespace,
    run: int,
) -> dict[str, Any]:
    # Another one starts first in each run: the first call of those that start
    # later may be slower, with processes beside them.
    order = collections.deque(MODES)
    order.rotate(run)
    workers, found = {}, {}
    with contextlib.ExitStack() as stack:
        for mode in order:
            closing = contextlib.closing(start(mode))
            workers[mode] = stack.enter_context(closing)
            found[mode] = workers[mode].first(name, "program")
        least = take_turns(workers, options.rounds, options.seconds)
    return {mode: one | {"least": least[mode]} for mode, one in found.items()}


def _row(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    want = runs[0]["plain"]["leaves"]
    return {
        "ms": {m: [_short(r[m]["least"] * 1e3) for r in runs] for m in MODES},
        "first": {m: [_short(r[m]["first"]) for r in runs] for m in MODES},
        "arrays": len(want),
        "differs": {
            mode: max(_differ(want, run[mode]["leaves"]) for run in runs)
            for mode in MODES
        },
        "replaced": runs[0]["all"]["replaced"],
        "jax": runs[0]["plain"]["jax"],
    }


def _short(time: float) -> float:
    """With six digits that count: even a microsecond's is never 0."""
    return float(f"{time:.6g}")


def _differ(xs: Sequence[Any], ys: Sequence[Any]) -> int:
    """How many arrays differ in a bit."""
    return sum(
        x.dtype != y.dtype or x.shape != y.shape or x.tobytes() != y.tobytes()
        for x, y in zip(xs, ys, strict=True)
    )


if __name__ == "__main__":
    sys.exit(main())
