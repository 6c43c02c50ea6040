"""Random programs with JAX's own CPU code and with the package's.

    tools/bazel run //accelerate/tests/fuzz -- --seconds 60
    python accelerate/tests/fuzz/fuzz.py --seconds 60 --only sort

A failure is made simple, printed, and what the next run begins with. Put it in
fuzz_test when you mend it. The exit status is the number of names that failed.
With --seed, the same programs are drawn in each run, and nothing is kept.
"""

import argparse
import collections
import itertools
import os
import pprint
import random
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import hypothesis
import jax
from fuzz_build import programs
from fuzz_operations import OPERATIONS
from fuzz_program import Program
from fuzz_run import Counter, rule_name, rules, run
from hypothesis import HealthCheck
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase

from xla_ffi_accelerate import _loops

# Before JAX starts: loops of small states, as "loops" has them.
_loops.widen()
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
DATABASE = CACHE / "xla_ffi_kit" / "fuzz"
SETTINGS = hypothesis.settings(
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
BATCH = 20  # programs of a name that hypothesis draws at once


class Session:
    """Runs programs, and collects what they show.

    Attributes:
      counter: the programs of each rule.
      programs: name -> programs, also those that met no rule.
      excused: why results may differ -> programs.
      database: of failures; hypothesis has none beside a seed.
    """

    def __init__(self, database: ExampleDatabase | None = None) -> None:
        self.counter = Counter()
        self.programs = collections.Counter[str]()
        self.excused = collections.Counter[str]()
        self.database = database

    def failure(self, program: Program) -> str | None:
        """Runs a program, and says what is wrong with its results."""
        outcome = run(program, self.counter)
        self.programs[program.name] += 1
        if outcome.excuse:
            self.excused[outcome.excuse] += 1
        return outcome.difference if outcome.is_failure else None

    def search(self, name: str, count: int, seed: int | None) -> str | None:
        """Draws so many programs; of those that fail, tells the simplest."""
        settings = hypothesis.settings(
            SETTINGS, max_examples=count, database=self.database
        )
        try:
            program = hypothesis.find(
                programs(name),
                lambda program: self.failure(program) is not None,
                settings=settings,
                random=None if seed is None else random.Random(seed),
                database_key=name.encode(),
            )
        except hypothesis.errors.NoSuchExample:
            return None
        difference = self.failure(program)
        told = f"{pprint.pformat(program)}\n{program.source()}"
        return f"--- {name}, jax {jax.__version__}: {difference}\n{told}\n---"

    def summary(self) -> str:
        """The programs of each rule, and what differed."""
        lines = [
            f"{self.counter.programs[name, rule]:7d}  {rule_name(name, rule)}"
            for name, rule in rules()
        ]
        lines += [f"{n:7d}  excused: {why}" for why, n in self.excused.items()]
        count = sum(self.programs.values())
        return "\n".join([*lines, f"{count} programs, jax {jax.__version__}"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the number of names with a failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=[])
    parser.add_argument("--database", type=Path, default=DATABASE)
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Some donated buffers")
    session = Session(DirectoryBasedExampleDatabase(options.database))
    failed = set[str]()
    end = time.monotonic() + options.seconds
    names = options.only or list(OPERATIONS)
    for turn, name in ((i, name) for i in itertools.count() for name in names):
        if time.monotonic() > end or failed.issuperset(names):
            break
        if name in failed:
            continue
        seed = None if options.seed is None else options.seed + turn
        if said := session.search(name, BATCH, seed):
            failed.add(name)
            print(said, flush=True)
    print(session.summary(), f"{len(failed)} failures", sep=", ")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
