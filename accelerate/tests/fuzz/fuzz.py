"""Random programs with JAX's own CPU code and with the package's.

    tools/bazel run //accelerate/tests/fuzz -- --seconds 60 --seed 7
    python accelerate/tests/fuzz/fuzz.py --seconds 60 --only sort
    python accelerate/tests/fuzz/fuzz.py --replay sort 1,0,2,5,0,7

The exit status is the number of failures.
"""

import argparse
import collections
import itertools
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import fuzz_report
import hypothesis
import jax
from fuzz_build import OPERATIONS, given, kept, programs
from fuzz_program import Program
from fuzz_run import Counter, Outcome, run
from hypothesis import HealthCheck, Phase, Verbosity

from xla_ffi_accelerate import _loops

# Before JAX starts: loops of small states, as "loops" has them.
_loops.widen()
# Programs that have failed once, or are rare.
KEPT = Path(__file__).parent / "kept.txt"
SETTINGS = hypothesis.settings(
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    verbosity=Verbosity.quiet,
)
BATCH = 20  # programs of a name that hypothesis draws at once


class DiffersError(Exception):
    """Tells hypothesis that a program fails."""


class Session:
    """Runs programs, and collects what they show.

    Attributes:
      counter: the programs of each rule.
      programs: name -> programs, also those that met no rule.
      failures: the failures, as simple as they were made.
      excused: why results may differ -> programs.
    """

    def __init__(self) -> None:
        self.counter = Counter()
        self.programs = collections.Counter[str]()
        self.failures: list[Outcome] = []
        self.excused = collections.Counter[str]()

    def run(self, program: Program) -> Outcome:
        """Runs a program."""
        try:
            outcome = run(program, self.counter)
        except Exception as error:
            error.add_note(f"in the program {program.told()}")
            raise
        self.programs[program.name] += 1
        if outcome.excuse:
            self.excused[outcome.excuse] += 1
            print(f"({program.told()}: {outcome.excuse})", flush=True)
        return outcome

    def keep(self, outcome: Outcome) -> Outcome:
        """Prints an outcome and keeps it if it is a failure."""
        if outcome.is_failure:
            print(fuzz_report.failure(outcome), flush=True)
            self.failures.append(outcome)
        return outcome

    def search(self, name: str, seed: int, count: int) -> None:
        """Draws so many programs; of those that fail, keeps the simplest."""
        found: list[Outcome] = []

        @hypothesis.seed(seed)
        @hypothesis.settings(SETTINGS, max_examples=count)
        @hypothesis.given(programs(name))
        def each(program: Program) -> None:
            outcome = self.run(program)
            if outcome.is_failure:
                found[:] = [outcome]
                raise DiffersError(outcome.difference)

        try:
            each()
        except DiffersError:
            self.keep(found[0])

    def summary(self) -> str:
        """The table, and what differed."""
        lines = [fuzz_report.table(self.counter)]
        lines += [f"{n:7d}  excused: {why}" for why, n in self.excused.items()]
        lines.append(
            f"{sum(self.programs.values())} programs, "
            f"{len(self.failures)} failures, jax {jax.__version__}"
        )
        return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=[])
    parser.add_argument("--replay", nargs=2, metavar=("NAME", "CHOICES"))
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Some donated buffers")
    session = Session()
    if options.replay:
        program = given(*options.replay)
        print(program.source())
        session.keep(session.run(program))
        print(session.summary())
        return len(session.failures)
    names = options.only or list(OPERATIONS)
    for name, choices in kept(KEPT):
        if name in names:
            session.keep(session.run(given(name, choices)))
    end = time.monotonic() + options.seconds
    # Not itertools.product, which takes all of the seeds first.
    seeds = itertools.count(options.seed)
    for seed, name in ((seed, name) for seed in seeds for name in names):
        if time.monotonic() > end:
            break
        session.search(name, seed, BATCH)
    print(session.summary())
    return len(session.failures)


if __name__ == "__main__":
    sys.exit(min(main(), 255))
