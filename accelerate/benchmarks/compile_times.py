"""How long JAX's functions take to compile with and without the package.

    tools/bazel run //accelerate/benchmarks:compile_times [-- --only sort]

Every case of the benchmark is a program of its own, ten of them are one, and it
is the body of a loop. Nothing runs, so that sizes cost nothing. The settings
take turns, each time with a new function, in a process that has compiled it
before, and the least time of each counts: that of tracing, lowering and
compiling. Programs that the package leaves as they are are left out. With the
wheels it runs on any release of JAX, by
`PYTHONPATH=benchmarks python accelerate/benchmarks/compile_times.py`.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np

import xla_ffi_accelerate
from bench import modes
from data_cases import DATA_CASES
from jax_cases import Case
from jax_cells import cases

# Times as long as plain JAX: more is no noise.
MOST = 1.05
# How often the settings take turns, at first and where one seems longer.
ROUNDS = (3, 15)
PLACES = 10
STEPS = 10  # of fewer than 8, loops are a case of their own: _loops.py
# Larger arguments take long to make.
MOST_ELEMENTS = 1_000_000

SETTINGS: dict[str, Callable[[], Any]] = {
    "plain": xla_ffi_accelerate.disabled,
    "exact": xla_ffi_accelerate.enabled,
    "all": lambda: xla_ffi_accelerate.enabled(exact=False),
}
# A function, and the shapes and dtypes of its arguments.
Program = tuple[Callable[..., Any], list[Any]]


def programs(case: Case) -> Iterator[tuple[str, Program]]:
    """The programs of a case, by what is behind its name."""
    sizes = {s: math.prod(s) for s in case.shapes}
    fit = [s for s in case.shapes if sizes[s] <= MOST_ELEMENTS]
    if not fit:
        return
    small, large = min(fit, key=sizes.get), max(fit, key=sizes.get)
    function, own = case.jax_function, _arguments(case, large)
    yield "alone", (function, own)
    many = own * PLACES

    def in_places(*arguments: Any) -> Any:
        parts = [arguments[i :: len(own)] for i in range(len(own))]
        return [function(*some) for some in zip(*parts, strict=True)]

    yield f"{PLACES} places", (in_places, many)

    def step(count: Any, some: tuple[Any, ...]) -> Any:
        return count + 1, function(*some)

    def loop(*arguments: Any) -> Any:
        return jax.lax.scan(step, 0, arguments)

    for name, shape in {"loop": small, "large loop": large}.items():
        if name == "loop" or small != large:
            rows = [
                jax.ShapeDtypeStruct((STEPS, *x.shape), x.dtype)
                for x in _arguments(case, shape)
            ]
            yield name, (loop, rows)


def _arguments(case: Case, shape: tuple[int, ...]) -> list[Any]:
    made = case.arguments(shape, np.random.default_rng(0))
    return [
        jax.ShapeDtypeStruct(
            np.shape(x), jax.dtypes.canonicalize_dtype(x.dtype)
        )
        for x in map(np.asarray, made)
    ]


def seconds(program: Program, setting: str) -> tuple[float, str]:
    """How long it takes to compile, and what it is lowered to."""
    function, arguments = program
    gc.collect()
    with SETTINGS[setting]():
        began = time.perf_counter()
        # A new function: no cache knows it.
        lowered = jax.jit(lambda *x: function(*x)).lower(*arguments)
        lowered.compile()
        return time.perf_counter() - began, lowered.as_text()


def measured(program: Program) -> dict[str, float]:
    """The least seconds of each setting that changes the program."""
    texts = {setting: seconds(program, setting)[1] for setting in SETTINGS}
    changed = [s for s in texts if texts[s] != texts["plain"]]
    if not changed:
        return {}
    least = dict.fromkeys(["plain", *changed], math.inf)
    for rounds in ROUNDS:
        for _ in range(rounds):
            for setting in least:
                spent = seconds(program, setting)[0]
                least[setting] = min(least[setting], spent)
        if max(least.values()) <= MOST * least["plain"]:
            break
    return least


def line(name: str, least: dict[str, float]) -> str:
    """Milliseconds of plain JAX, and how many times as long the others take."""
    ratios = [
        f"{setting} {spent / least['plain']:5.2f} x"
        for setting, spent in least.items()
        if setting != "plain"
    ]
    return f"{name:44} {least['plain'] * 1e3:8.1f} ms  " + "  ".join(ratios)


def summary(rows: dict[str, dict[str, float]]) -> str:
    """The means, and what takes longer."""
    lines = [f"{len(rows)} programs, jax {jax.__version__}"]
    for setting in ("exact", "all"):
        ratios = {
            name: row[setting] / row["plain"]
            for name, row in rows.items()
            if setting in row
        }
        if ratios:
            longer = [n for n, ratio in ratios.items() if ratio > MOST]
            lines.append(
                f"{setting}: geometric mean {modes.mean(ratios.values()):.2f}, "
                f"most {max(ratios.values()):.2f}; above {MOST}: "
                f"{', '.join(longer) or 'none'}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="WORD")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    found = {
        case.name: case
        for case in cases()
        # Those of other data are the same programs.
        if case not in DATA_CASES
    }
    rows = {}
    for name in modes.chosen(parser, found, options.only):
        for where, program in programs(found[name]):
            if least := measured(program):
                row = f"{name}, {where}"
                rows[row] = least
                print(line(row, least), flush=True)
    print(summary(rows))


if __name__ == "__main__":
    main(sys.argv[1:])
