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
then `python accelerate/programs/run.py --python PYTHON`.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import functools
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import page
import worker

HERE = pathlib.Path(__file__).absolute().parent
# What a process has in XLA_FFI_ACCELERATE.
MODES = {"plain": None, "exact": "exact", "all": "all"}


@dataclasses.dataclass(frozen=True)
class Plan:
    """How often, and how long, a program runs.

    Attributes:
      runs: each has processes of its own, one of each mode.
      rounds: of each run, in which its processes take turns.
      seconds: that each process has in a round.
    """

    runs: int
    rounds: int
    seconds: float


class Worker:
    """A program in a process of its own."""

    def __init__(
        self, python: str, program: pathlib.Path, log: Any, mode: str
    ) -> None:
        env = {**os.environ, "KERAS_BACKEND": "jax"}
        env.pop("XLA_FFI_ACCELERATE", None)
        if MODES[mode]:
            env["XLA_FFI_ACCELERATE"] = str(MODES[mode])
        self._process = subprocess.Popen(
            [python, worker.__file__, program.parent, program.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=env,
        )
        self.first: float = self._answer()
        self.leaves: list[Any] = self._answer()
        self.replaced: dict[str, int] = self._answer()

    def time(self, seconds: float) -> float:
        """The least of the times of a round."""
        assert self._process.stdin
        self._process.stdin.write(f"{seconds}\n".encode())
        self._process.stdin.flush()
        return float(self._answer())

    def close(self) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()

    def _answer(self) -> Any:
        assert self._process.stdout
        return pickle.load(self._process.stdout)  # of a process of ours


@dataclasses.dataclass(frozen=True)
class _Ran:
    """What a process has shown: seconds, results, and what was replaced."""

    first: float
    least: float
    leaves: list[Any]
    replaced: dict[str, int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs them; the number that failed or have other bits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
    parser.add_argument("--python", help="that has the packages and the wheels")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--one-core", action="store_true")
    parser.add_argument("--json", help="write the figures to this file")
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args(arguments)
    chosen = [p for p in programs() if _is_chosen(p.stem, options.only)]
    if not chosen:
        parser.error(
            f"--only: no program has any of {options.only} in its name"
        )
    if options.one_core:  # also of the processes that are started
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        python = options.python or _installed(folder)
        rows = []
        plan = Plan(options.runs, options.rounds, options.seconds)
        for row in measured(python, chosen, plan):
            print(page.line(row), flush=True)
            rows.append(row)
        found = {**page.circumstances(python), "programs": rows}
    print(page.summary(rows))
    if options.json:
        pathlib.Path(options.json).write_text(page.written(found))
    if options.publish:
        page.write(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), found)
    return sum(page.is_wrong(row) for row in rows)


def programs() -> list[pathlib.Path]:
    """All of them."""
    found = (HERE / "public").glob("*.py")
    return sorted(p for p in found if p.stem != "__init__")  # Bazel's own


def _is_chosen(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def _installed(folder: str) -> str:
    import environments

    found = environments.find_python(("3.11", "3.12", "3.13"))
    lock = HERE / "requirements_lock.txt"
    base = environments.filled(lock, found, "programs")
    return str(environments.install(environments.wheels(), base, folder))


def measured(
    python: str, chosen: Sequence[pathlib.Path], plan: Plan
) -> Iterator[dict[str, Any]]:
    """The row of each program."""
    for program in chosen:
        with tempfile.TemporaryFile() as log:
            start = functools.partial(Worker, python, program, log)
            try:
                runs = [_run(start, plan, i) for i in range(plan.runs)]
            except EOFError:
                log.seek(0)
                text = log.read().decode(errors="replace").strip()
                last = text.splitlines()[-1:] or ["it said nothing"]
                yield {"name": program.stem, "failed": last[0]}
            else:
                yield {"name": program.stem, **_row(runs)}


def _run(
    start: Callable[[str], Worker], plan: Plan, run: int
) -> dict[str, _Ran]:
    # Another one starts first in each run: the first call of those that start
    # later may be slower, with processes beside them.
    modes = collections.deque(MODES)
    modes.rotate(run)
    with contextlib.ExitStack() as stack:
        workers = {
            mode: stack.enter_context(contextlib.closing(start(mode)))
            for mode in modes
        }
        least = dict.fromkeys(modes, float("inf"))
        for _ in range(plan.rounds):
            for mode, one in workers.items():
                least[mode] = min(least[mode], one.time(plan.seconds))
    return {
        mode: _Ran(one.first, least[mode], one.leaves, one.replaced)
        for mode, one in workers.items()
    }


def _row(runs: Sequence[dict[str, _Ran]]) -> dict[str, Any]:
    want = runs[0]["plain"].leaves
    return {
        "ms": {m: [_short(r[m].least * 1e3) for r in runs] for m in MODES},
        "first": {m: [_short(r[m].first) for r in runs] for m in MODES},
        "arrays": len(want),
        "differs": {
            mode: max(_differ(want, run[mode].leaves) for run in runs)
            for mode in MODES
        },
        "replaced": runs[0]["all"].replaced,
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
