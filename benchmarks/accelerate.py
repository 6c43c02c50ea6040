"""What xla_ffi_kit.accelerate() brings: JAX's functions with and without it.

    tools/bazel run //benchmarks:accelerate -- [--only NAME ...] [--quick]
        [--json FILE]

Every case is compiled twice, with JAX's own lowering and with the kit's, and
runs in rounds: once without the kit, once with it, once in NumPy. A ratio is
the median over the rounds of the ratio within a round, so that what else the
machine does weighs on both sides alike. Calls from Python, outputs fresh.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from accelerate_cases import CASES, Case

import xla_ffi_kit


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the table; times are medians, in milliseconds."""

    name: str
    shape: str
    jax_ms: float
    kit_ms: float
    numpy_ms: float | None
    times_jax: float
    times_numpy: float | None


def compiled(case: Case, args: Any, *names: str | bool) -> Callable[[], Any]:
    """The case as a program of its own, which outlives the switch."""
    with xla_ffi_kit.accelerate(*names):
        return functools.partial(
            jax.jit(case.jax_function).lower(*args).compile(), *args
        )


def seconds(f: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(f())
    return (time.perf_counter() - start) / calls


def measure(case: Case, shape: tuple[int, ...], quick: bool) -> Row:
    args = case.arguments(shape, np.random.default_rng(0))
    device_args = jax.block_until_ready(jax.device_put(args))
    functions = [
        compiled(case, device_args, False),
        compiled(case, device_args),
    ]
    own, kit = (jax.tree.map(np.asarray, f()) for f in functions)
    jax.tree.map(np.testing.assert_array_equal, own, kit)
    if case.numpy_function is not None:
        functions.append(functools.partial(case.numpy_function, *args))

    warm = [seconds(f, 1) for f in functions]
    calls = [max(1, min(500, int(2e-3 / t))) for t in warm]
    budget = 1.0 if quick else 6.0
    rounds = max(3, min(25, int(budget / (sum(warm) + 6e-3))))
    times = [
        [seconds(f, n) for f, n in zip(functions, calls, strict=True)]
        for _ in range(rounds)
    ]
    median = [
        statistics.median(column) * 1e3 for column in zip(*times, strict=True)
    ]
    has_numpy = len(median) > 2
    return Row(
        case.name,
        " x ".join(f"{size:,}" for size in shape),
        median[0],
        median[1],
        median[2] if has_numpy else None,
        statistics.median(t[0] / t[1] for t in times),
        statistics.median(t[2] / t[1] for t in times) if has_numpy else None,
    )


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", default=None)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", metavar="FILE", help="also write the table")
    options = parser.parse_args(argv)
    if options.only and not set(options.only) <= {c.name for c in CASES}:
        parser.error(f"--only: expected any of {[c.name for c in CASES]}")

    print("| function | shape | JAX ms | kit ms | NumPy ms | x JAX | x NumPy |")
    print("|---|---|---|---|---|---|---|")
    table = []
    for case in CASES:
        if options.only and case.name not in options.only:
            continue
        for shape in case.shapes:
            row = measure(case, shape, options.quick)
            table.append(row)
            cells = [row.name, row.shape]
            cells += map(number, dataclasses.astuple(row)[2:])
            print(f"| {' | '.join(cells)} |", flush=True)
    if options.json:
        result = {
            "jax": jax.__version__,
            "machine": platform.processor() or platform.machine(),
            "rows": [dataclasses.asdict(row) for row in table],
        }
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main(sys.argv[1:])
