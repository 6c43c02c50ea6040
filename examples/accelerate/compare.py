"""Three whole programs with and without `xla_ffi_kit.accelerate()`.

    tools/bazel run //examples/accelerate:compare [-- --short]
    python examples/accelerate/compare.py [--short]

The latter wherever JAX and the kit's wheel are installed. Prints for each how
long it takes, and that its results are the same.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import moe_router
import numpy as np
import particle_filter
import replay_buffer

import xla_ffi_kit

PROGRAMS = {
    "particle filter": particle_filter,
    "replay buffer": replay_buffer,
    "mixture of experts": moe_router,
}


def compiled(program: Any, args: Any, *names: bool) -> Callable[[], Any]:
    """The program as it is compiled with or without the kit."""
    with xla_ffi_kit.accelerate(*names):
        return functools.partial(jax.jit(program).lower(*args).compile(), *args)


def milliseconds(f: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(f())
    return (time.perf_counter() - start) * 1e3


def compare(name: str, short: bool, rounds: int) -> float:
    """Prints a line; returns how many times faster the kit is."""
    module = PROGRAMS[name]
    args = jax.block_until_ready(module.arguments(short))
    own = compiled(module.program, args, False)
    kit = compiled(module.program, args)
    jax.tree.map(np.testing.assert_array_equal, own(), kit())
    times = [(milliseconds(own), milliseconds(kit)) for _ in range(rounds)]
    without, with_kit = map(statistics.median, zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"{name:20} {without:9.2f} ms, accelerated {with_kit:9.2f} ms: "
        f"{ratio:.1f} times as fast, same results"
    )
    return ratio


def main(argv: list[str]) -> None:
    short = "--short" in argv
    for name in PROGRAMS:
        compare(name, short, rounds=1 if short else 7)


if __name__ == "__main__":
    main(sys.argv[1:])
