"""Random programs that the package makes slower than JAX's own CPU code.

    tools/bazel run //accelerate/tests/fuzz:hunt -- --seconds 3600 --seed 7
    tools/bazel run //accelerate/tests/fuzz:hunt -- --time argmax 1,0,2,5,0,7

The programs are the fuzzer's, with break-even sizes as users have them. Three
processes take turns, one for each setting, and the least time of each counts.
What is slower is timed again in new processes; it is found where each of them
says so. Programs of slow.txt, which were found once, come first. The exit
status is 0 whatever is found: times are no test.

Without Bazel: PYTHONPATH=benchmarks python accelerate/tests/fuzz/hunt.py
"""

import argparse
import contextlib
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import jax
from fuzz_build import OPERATIONS, build, given, kept
from fuzz_draw import Draw, Stream
from fuzz_program import ROUNDS, Program

from bench.modes import LEAST, MODES
from bench.worker import Worker, take_turns

SLOW = Path(__file__).parent / "slow.txt"
# How often each process has its turn: at first, and where it seems slower.
TURNS = (6, 40)
SECONDS = 0.004  # of a turn
AGAIN = 3  # times in new processes

# Mode -> the least seconds of a call; empty if the program meets no rule.
Times: TypeAlias = Mapping[str, float]
Workers: TypeAlias = Mapping[str, Worker]


def drawn(name: str, seed: int) -> Program:
    """A random program, the same on every machine."""
    stream = Stream(zlib.crc32(f"{name} {seed}".encode()))
    return build(name, Draw(lambda limit: int(stream.below(limit))))


def call(name: str, choices: str) -> Callable[[], object]:
    """The program of choices, for a process of its own."""
    program = given(name, choices)
    jax.config.update("jax_enable_x64", program.x64)
    jax.config.update("jax_threefry_partitionable", program.partitionable)
    function = jax.jit(program.function())
    round_ = sum(program.choices) % ROUNDS
    arguments = jax.device_put(program.arguments(round_))
    return lambda: function(*arguments)


@contextlib.contextmanager
def processes() -> Iterator[Workers]:
    """New processes, one of each mode."""
    with contextlib.ExitStack() as stack:
        yield {
            mode: stack.enter_context(contextlib.closing(Worker(of, sys.path)))
            for mode, of in MODES.items()
        }


def measured(workers: Workers, program: Program, turns: int) -> Times:
    """Times a program; EOFError, which names it, if it ends its process."""
    asked = ("hunt", "call", *program.told().split())
    try:
        # What no rule of all covers is plain JAX in each.
        if not workers["all"].first(*asked)["replaced"]:
            return {}
        exact = workers["exact"].first(*asked)["replaced"]
        workers["plain"].first(*asked)
        modes = ("plain", "exact", "all") if exact else ("plain", "all")
        return take_turns({m: workers[m] for m in modes}, turns, SECONDS)
    except EOFError as error:
        raise EOFError(f"the process of {program.told()} has ended") from error


def again(program: Program) -> list[Times]:
    """Its times in new processes."""
    runs = []
    for _ in range(AGAIN):
        with processes() as workers:
            runs.append(measured(workers, program, TURNS[-1]))
    return runs


def least(runs: Sequence[Times]) -> float:
    """How many times as fast as JAX's own code the slowest mode is at best."""
    modes = [mode for mode in runs[0] if mode != "plain"]
    return min(max(t["plain"] / t[mode] for t in runs) for mode in modes)


def told(program: Program, runs: Sequence[Times]) -> str:
    """What times it again, its ratios in each run, and its text."""
    lines = [f"--time {program.told()}"]
    for mode in runs[0]:
        ratios = (f"{times['plain'] / times[mode]:.2f}" for times in runs)
        micro = min(times[mode] for times in runs) * 1e6
        lines.append(f"# {mode}: {micro:.1f} us, {', '.join(ratios)} x")
    lines += [f"# {array}" for array in program.arrays]
    return "\n".join([*lines, program.source(), ""])


def judged(workers: Workers, program: Program) -> list[float]:
    """Its least ratio if it meets a rule; prints it if it is slower."""
    ratio = 0.0
    for turns in TURNS:
        if ratio < LEAST:
            times = measured(workers, program, turns)
            if not times:
                return []
            ratio = least([times])
    if ratio < LEAST:
        runs = again(program)
        ratio = least(runs)
        if ratio < LEAST:
            print(told(program, runs), flush=True)
    return [ratio]


def hunt(names: Sequence[str], seed: int, seconds: float) -> str:
    """Times those of slow.txt, then random ones; returns what was tried."""
    tried: dict[str, list[float]] = {name: [] for name in names}
    with processes() as workers:
        for name, choices in kept(SLOW):
            if name in names:
                tried[name] += judged(workers, given(name, choices))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # New ones: they keep what they have compiled, and some loops are faster
        # in one process than in another.
        with processes() as workers:
            for name in names:
                if time.monotonic() < end:
                    tried[name] += judged(workers, drawn(name, seed))
        seed += 1
    lines = [
        f"{len(ratios):6d} programs of {name}, least {min(ratios):.2f}"
        for name, ratios in tried.items()
        if ratios
    ]
    ratios = [ratio for found in tried.values() for ratio in found]
    slower = sum(ratio < LEAST for ratio in ratios)
    lines.append(f"{len(ratios)} programs that met a rule, {slower} of them")
    return "\n".join(lines) + f" below {LEAST}, jax {jax.__version__}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=OPERATIONS, default=[])
    parser.add_argument("--time", nargs=2, metavar=("NAME", "CHOICES"))
    options = parser.parse_args(arguments)
    if options.time:
        program = given(*options.time)
        print(told(program, again(program)))
    else:
        names = options.only or list(OPERATIONS)
        print(hunt(names, options.seed, options.seconds))


if __name__ == "__main__":
    main()
