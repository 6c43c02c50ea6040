"""Random programs that the package makes slower than JAX's own CPU code.

    tools/bazel run //accelerate/tests/fuzz:hunt -- --seconds 3600 --seed 7
    python accelerate/tests/fuzz/hunt.py --seconds 60 --only argmax
    python accelerate/tests/fuzz/hunt.py --time argmax 1,0,2,5,0,7

The programs are the fuzzer's, with break-even sizes as users have them. Both
kinds of code run in turns, and the least time of each counts. What is slower
is timed again in new processes; it is lost where each of them says so. The
exit status is 0 whatever is found: times are no test.
"""

import argparse
import dataclasses
import itertools
import json
import subprocess
import sys
import time
import zlib
from collections.abc import Sequence

import fuzz_run
import jax
import numpy as np
from fuzz import given
from fuzz_build import OPERATIONS, build
from fuzz_draw import Draw
from fuzz_program import ROUNDS, Program

import xla_ffi_accelerate
from xla_ffi_accelerate import _loops

# Before JAX starts: loops of small states, as "loops" has them.
_loops.widen()
# The least of plain JAX's time over the package's that is no loss.
PAR = 0.97
PROCESSES = 3
# Of one measurement: turns, and seconds of a turn of each kind.
TURNS, LONGER = 12, 40
SECONDS = 2e-3


@dataclasses.dataclass
class Timed:
    """Times of a program.

    Attributes:
      plain: seconds of a call of JAX's own code.
      package: the same with the package.
    """

    plain: float
    package: float

    @property
    def ratio(self) -> float:
        """How many times as fast the package is."""
        return self.plain / self.package


def drawn(name: str, seed: int, exact: bool = False) -> Program:
    """A random program."""
    random = np.random.default_rng([zlib.crc32(name.encode()), seed])
    draw = Draw(lambda limit: int(random.integers(limit)))
    return as_users_have(build(name, draw), exact)


def as_users_have(program: Program, exact: bool = False) -> Program:
    """The same, with break-even sizes as users have them."""
    program.forced, program.symbolic = False, False
    program.exact = program.exact or exact
    return program


def compiled(program: Program) -> tuple[fuzz_run.Compiled, ...] | None:
    """JAX's own code and the package's; None if no rule takes part."""
    counter = fuzz_run.Counter()
    with xla_ffi_accelerate.disabled():
        plain = fuzz_run.compile_(program)
    with fuzz_run.package(program, counter):
        package = fuzz_run.compile_(program)
    return (plain, package) if counter.end_program() else None


def measure(program: Program, turns: int) -> Timed | None:
    """Times both kinds in turns; None if no rule takes part."""
    with program.options():
        pair = compiled(program)
        if pair is None:
            return None
        round_ = sum(program.choices) % ROUNDS
        arguments = jax.device_put(program.arguments(round_))
        calls = [_calls(run, arguments) for run in pair]
        least = [float("inf")] * 2
        for turn in range(turns):
            for kind in (0, 1) if turn % 2 else (1, 0):
                seconds = _seconds(pair[kind], arguments, calls[kind])
                least[kind] = min(least[kind], seconds)
    return Timed(*least)


def _calls(run: fuzz_run.Compiled, arguments: list[jax.Array]) -> int:
    """How many calls a turn has."""
    jax.block_until_ready(run(*arguments))
    return max(1, int(SECONDS / _seconds(run, arguments, 3)))


def _seconds(
    run: fuzz_run.Compiled, arguments: list[jax.Array], calls: int
) -> float:
    """Seconds of a call, of so many."""
    start = time.perf_counter()
    for _ in range(calls):
        results = run(*arguments)
    jax.block_until_ready(results)
    return (time.perf_counter() - start) / calls


def lost(program: Program, exact: bool) -> list[float]:
    """The ratios of new processes if all are below par, else nothing."""
    command = [sys.executable, __file__, "--time", *program.told().split()]
    if exact:
        command.append("--exact")
    ratios = []
    for _ in range(PROCESSES):
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        ratios.append(Timed(**json.loads(done.stdout.splitlines()[-1])).ratio)
        if ratios[-1] >= PAR:
            return []
    return ratios


def hunt(names: Sequence[str], seed: int, seconds: float, exact: bool) -> int:
    """Prints what is lost; returns how many programs that is."""
    end = time.monotonic() + seconds
    tried = found = 0
    for at, name in itertools.product(itertools.count(seed), names):
        if time.monotonic() > end:
            break
        program = drawn(name, at, exact)
        timed = measure(program, TURNS)
        tried += timed is not None
        if timed is None or timed.ratio >= PAR:
            continue
        timed = measure(program, LONGER)
        if timed is None or timed.ratio >= PAR:
            continue
        ratios = lost(program, exact)
        if ratios:
            found += 1
            listed = ", ".join(f"{r:.2f}" for r in ratios)
            micro = f"{timed.plain * 1e6:.1f} us plain"
            told = f"{program.told()}: {listed}; {micro}"
            print(told, program.source(), sep="\n")
            print(*program.arrays, sep="\n", flush=True)
    print(f"{tried} programs that met a rule, {found} below {PAR}", end=", ")
    print(f"jax {jax.__version__}")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--exact", action="store_true", help="exact names alone"
    )
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=[])
    parser.add_argument("--time", nargs=2, metavar=("NAME", "CHOICES"))
    options = parser.parse_args(arguments)
    if options.time:
        program = as_users_have(given(*options.time), options.exact)
        timed = measure(program, LONGER)
        print(json.dumps(dataclasses.asdict(timed)) if timed else "null")
        return
    names = options.only or list(OPERATIONS)
    hunt(names, options.seed, options.seconds, options.exact)


if __name__ == "__main__":
    main()
