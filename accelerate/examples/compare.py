"""Whole programs with and without `xla_ffi_accelerate.enable()`.

    tools/bazel run //accelerate/examples:compare [-- --short]
    python accelerate/examples/compare.py [--short] [PROGRAM...]

The second command works wherever JAX and the wheels are installed. Both print
how long each program takes, and that its results are the same, bit for bit.
Programs with a TOLERANCE switch on close rules by their NAMES, so their results
are only close.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import cameras
import depthwise
import jax
import metropolis
import moe_router
import numpy as np
import pagerank
import particle_filter
import replay_buffer

import xla_ffi_accelerate

PROGRAMS = {
    "particle filter": particle_filter,
    "replay buffer": replay_buffer,
    "mixture of experts": moe_router,
    "adaptive Metropolis": metropolis,
    "camera poses": cameras,
    "personal PageRank": pagerank,
    "depthwise training": depthwise,
}


@contextlib.contextmanager
def accelerated(module: Any) -> Iterator[None]:
    """With all that is exact, and what the program names."""
    names = getattr(module, "NAMES", ())
    with xla_ffi_accelerate.enabled(), xla_ffi_accelerate.enabled(*names):
        yield


def compiled(program: Any, args: Any) -> Callable[[], Any]:
    return functools.partial(jax.jit(program).lower(*args).compile(), *args)


def check(module: Any, own: Any, kit: Any) -> str:
    """What the results have in common; an AssertionError if too little."""
    tolerance = getattr(module, "TOLERANCE", 0)
    if not tolerance:
        jax.tree.map(np.testing.assert_array_equal, own, kit)
        return "same results"
    for a, b in zip(*map(jax.tree.leaves, (own, kit)), strict=True):
        np.testing.assert_allclose(a, b, tolerance, tolerance)
    return f"results within {tolerance:g}"


def milliseconds(f: Callable[[], Any]) -> float:
    start = time.perf_counter()
    jax.block_until_ready(f())
    return (time.perf_counter() - start) * 1e3


def compare(name: str, short: bool, rounds: int) -> float:
    """Prints a line; returns how many times faster the kit is."""
    module = PROGRAMS[name]
    args = jax.block_until_ready(module.arguments(short))
    own = compiled(module.program, args)
    with accelerated(module):
        kit = compiled(module.program, args)
    same = check(module, own(), kit())
    times = [(milliseconds(own), milliseconds(kit)) for _ in range(rounds)]
    without, with_kit = map(statistics.median, zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"{name:20} {without:9.2f} ms, accelerated {with_kit:9.2f} ms: "
        f"{ratio:.1f} times as fast, {same}"
    )
    return ratio


def main(argv: list[str]) -> None:
    short = "--short" in argv
    chosen = [name for name in PROGRAMS if name in argv]
    for name in chosen or PROGRAMS:
        compare(name, short, rounds=1 if short else 7)


if __name__ == "__main__":
    main(sys.argv[1:])
