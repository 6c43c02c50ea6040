"""Loops of small states with and without the package, and by hand in C++.

    tools/bazel run //accelerate/benchmarks:loops [-- --only Kalman --rounds 3]
    tools/bazel run //accelerate/benchmarks:loops -- --publish
    tools/bazel run //accelerate/benchmarks:loops -- --jax 0.12.0.1 --publish

Processes take turns: one by JAX's own code, one under `enable()`, one with
everything on (`enable(exact=False)`), one with the C++. There are several runs,
each with new processes, since a loop is faster in some than in others. Of each
program the least time of all rounds and runs counts, since other work on the
machine only adds. The results are compared: those of `enable()` bit for bit.
With the wheels it runs on any release of JAX, by
`PYTHONPATH=benchmarks python accelerate/benchmarks/loops.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import loops_page
from bench import modes
from bench.page import environment
from bench.worker import Worker, take_turns
from loop_programs import programs

# Mode -> the setting, and what makes a program.
_MODES = {mode: (setting, "of_jax") for mode, setting in modes.MODES.items()}
_MODES["C++"] = ("", "by_hand")
# f32: what is summed in another order is off by so much of the largest.
TOLERANCE = 1e-3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it; 1 if a result differs."""
    parser = modes.parser(__doc__, rounds=15, seconds=0.02)
    parser.add_argument("--jax", metavar="VERSION", help="another release")
    given = sys.argv[1:] if arguments is None else arguments
    options = parser.parse_args(given)
    import jax

    if options.jax not in (None, jax.__version__):
        # Imported here: what runs there neither has nor needs it.
        from bench import another_jax

        return another_jax.again(options.jax, __file__, given)
    chosen = modes.chosen(parser, programs(), options.only)
    runs = [_run(chosen, options) for _ in range(options.runs)]
    rows = [loops_page.joined(same) for same in zip(*runs, strict=True)]
    print(modes.summary(rows))
    found = {**environment(jax=jax.__version__), "programs": rows}
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(found, indent=1))
    if options.publish:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")
        loops_page.write(pathlib.Path(root), found)
    return int(any(row["differs"] for row in rows))


def _run(
    chosen: Sequence[str], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """The rows of all programs, in new processes."""
    with contextlib.ExitStack() as stack:
        workers = {
            mode: stack.enter_context(contextlib.closing(Worker(of, sys.path)))
            for mode, (of, _) in _MODES.items()
        }
        return [_measured(workers, name, options) for name in chosen]


def _measured(
    workers: dict[str, Worker], name: str, options: argparse.Namespace
) -> dict[str, Any]:
    asked = {
        mode: worker.first("loop_programs", _MODES[mode][1], name)
        for mode, worker in workers.items()
    }
    found = {mode: answer for mode, answer in asked.items() if answer}
    takers = {mode: workers[mode] for mode in found}
    least = take_turns(takers, options.rounds, options.seconds)
    ns = 1e9 / programs()[name].steps
    row = {
        "name": name,
        "ns": {mode: round(least[mode] * ns, 1) for mode in found},
        "first": {mode: round(of["first"], 3) for mode, of in found.items()},
        "differs": _difference({m: of["leaves"] for m, of in found.items()}),
    }
    print(loops_page.line(loops_page.joined([row])), flush=True)
    return row


def _difference(results: dict[str, list[Any]]) -> str:
    """What is wrong, or nothing."""
    plain = results["plain"]
    for x, y in zip(plain, results["exact"], strict=True):
        if x.tobytes() != y.tobytes():
            return "exact: other bits"
    for x, y in zip(plain, results["all"], strict=True):
        if not _is_close(x, y):
            return "all: beyond the tolerance"
    if "C++" in results and not _is_close(
        np.ravel(plain[-1])[-1:], np.ravel(results["C++"][0])
    ):
        return "C++: beyond the tolerance"
    return ""


def _is_close(x: Any, y: Any) -> bool:
    if not np.issubdtype(x.dtype, np.inexact):
        return x.tobytes() == y.tobytes()
    size = np.abs(x).max(initial=1e-6)
    return bool(np.abs(x - y).max(initial=0) <= TOLERANCE * size)


if __name__ == "__main__":
    sys.exit(main())
