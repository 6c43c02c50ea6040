"""Random programs with JAX's own CPU code and with the package's.

    tools/bazel run //accelerate/tests/fuzz -- --seconds 60 --seed 7
    python accelerate/tests/fuzz/fuzz.py --seconds 60 --only sort
    python accelerate/tests/fuzz/fuzz.py --replay sort 1234

The exit status is the number of failures.
"""

import argparse
import collections
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

import fuzz_report
import jax
from fuzz_build import OPERATIONS, build
from fuzz_run import Counter, Outcome, run
from fuzz_shrink import shrink

from xla_ffi_accelerate import _loops

# Before JAX starts: loops of small states, as "loops" has them.
_loops.widen()
KEPT = Path(__file__).parent / "kept.txt"


def kept() -> list[tuple[str, int]]:
    """The names and seeds of programs that have failed once."""
    lines = (line.partition("#")[0].split() for line in _lines())
    return [(words[0], int(words[1])) for words in lines if words]


def _lines() -> list[str]:
    return KEPT.read_text().splitlines()


def drawn(names: Sequence[str], seed: int) -> Iterator[tuple[str, int]]:
    """Names and seeds without end, of each name as many."""
    while True:
        for name in names:
            yield name, seed
        seed += 1


class Session:
    """Runs programs, and collects what they show.

    Attributes:
      counter: the programs of each rule.
      programs: name -> programs, also those that met no rule.
      failures: the failures, as simple as they were made.
      excused: why results may differ -> programs.
    """

    def __init__(self, shrink_seconds: float) -> None:
        self.counter = Counter()
        self.programs = collections.Counter[str]()
        self.failures: list[Outcome] = []
        self.excused = collections.Counter[str]()
        self._seconds = shrink_seconds

    def run(self, name: str, seed: int) -> Outcome:
        """Runs the program of a seed; prints it if it fails."""
        try:
            outcome = run(build(name, seed), self.counter)
        except Exception as error:
            error.add_note(f"in the program {name} {seed}")
            raise
        self.programs[name] += 1
        if outcome.excuse:
            self.excused[outcome.excuse] += 1
            print(f"({name} {seed}: {outcome.excuse})", flush=True)
        if outcome.is_failure:
            simple = shrink(outcome, self._seconds)
            print(fuzz_report.failure(simple, outcome), flush=True)
            self.failures.append(simple)
        return outcome

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
    parser.add_argument("--replay", nargs=2, metavar=("NAME", "SEED"))
    parser.add_argument("--shrink-seconds", type=float, default=60)
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore", message="Some donated buffers")
    session = Session(options.shrink_seconds)
    if options.replay:
        name, seed = options.replay
        print(build(name, int(seed)).source())
        session.run(name, int(seed))
        print(session.summary())
        return len(session.failures)
    names = options.only or list(OPERATIONS)
    end = time.monotonic() + options.seconds
    for name, seed in kept():
        if name in names:
            session.run(name, seed)
    for name, seed in drawn(names, options.seed):
        if time.monotonic() > end:
            break
        session.run(name, seed)
    print(session.summary())
    return len(session.failures)


if __name__ == "__main__":
    sys.exit(min(main(), 255))
