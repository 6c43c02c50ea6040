"""Loops of small states with and without the package, and by hand in C++.

    tools/bazel run //accelerate/benchmarks:loops [-- --only Kalman --rounds 3]
    tools/bazel run //accelerate/benchmarks:loops -- --publish
    tools/bazel run //accelerate/benchmarks:loops -- --jax 0.12.0.1 --publish

Processes take turns: one by JAX's own code, one under `enable()`, one with
everything on (`enable(exact=False)`), one with the C++. There are several runs,
each with new processes, since a loop is faster in some than in others. Of each
program the least time of all rounds and runs counts, since other work on the
machine only adds. The results are compared: those of `enable()` bit for bit.
With the wheels it runs by `python accelerate/benchmarks/loops.py`, on any
release of JAX.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import loops_page
from loop_worker import MODES, Worker, names

# f32: what is summed in another order is off by so much of the largest.
TOLERANCE = 1e-3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs it; 1 if a result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.02)
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--publish", action="store_true")
    parser.add_argument("--jax", metavar="VERSION", help="another release")
    options = parser.parse_args(arguments)
    if options.jax:
        return _again(options)
    chosen = [n for n in names() if _is_chosen(n, options.only)]
    if not chosen:
        parser.error(
            f"--only: no program has any of {options.only} in its name"
        )
    runs, jax = [], ""
    for _ in range(options.runs):
        workers = {mode: Worker(mode) for mode in MODES}
        try:
            runs.append(list(_measured(workers, chosen, options)))
            jax = str(workers["plain"].ask(do="version"))
        finally:
            for worker in workers.values():
                worker.close()
    rows = [loops_page.joined(same) for same in zip(*runs, strict=True)]
    print(loops_page.summary(rows))
    found = {**loops_page.circumstances(jax), "programs": rows}
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    if options.publish:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY", os.getcwd())
        loops_page.write(root, found)
    return int(any(row["differs"] for row in rows))


def _again(options: argparse.Namespace) -> int:
    """The same with the wheels, on another release."""
    import another_jax

    given = ["--rounds", f"{options.rounds}", "--seconds", f"{options.seconds}"]
    given += ["--runs", f"{options.runs}"]
    if options.only:
        given += ["--only", *options.only]
    if options.json:
        given += ["--json", os.path.abspath(options.json)]
    if options.publish:
        given.append("--publish")
    return another_jax.again(options.jax, __file__, given)


def _is_chosen(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def _measured(
    workers: dict[str, Worker],
    chosen: Sequence[str],
    options: argparse.Namespace,
) -> Iterator[dict[str, Any]]:
    for name in chosen:
        first: dict[str, float] = {}
        results: dict[str, list[Any]] = {}
        for mode, worker in workers.items():
            answer = worker.ask(do="first", program=name)
            if answer is not None:
                first[mode] = answer["seconds"]
                results[mode] = [np.asarray(x) for x in worker.results()]
        least = dict.fromkeys(first, math.inf)
        for _ in range(options.rounds):
            for mode in first:
                seconds = options.seconds
                ns = workers[mode].ask(do="time", seconds=seconds)
                least[mode] = min(least[mode], ns)
        row = {
            "name": name,
            "ns": {mode: round(ns, 1) for mode, ns in least.items()},
            "first": {mode: round(s, 3) for mode, s in first.items()},
            "differs": _difference(results),
        }
        print(loops_page.line(loops_page.joined([row])), flush=True)
        yield row


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
