"""Whole programs with and without `xla_ffi_accelerate.enable()`.

    tools/bazel run //accelerate/examples:compare [-- --short]
    python accelerate/examples/compare.py [--short] [PROGRAM...]
    tools/bazel run //accelerate/examples:compare_explained > \
        accelerate/docs/explained.md

The second command works wherever JAX and the wheels are installed. Both print
how long each program takes, and that its results are the same, bit for bit, or
within the program's TOLERANCE. The third one prints a page instead.
"""

from __future__ import annotations

import functools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import moe_router
import numpy as np
import pagerank
import particle_filter

import xla_ffi_accelerate

PROGRAMS = {
    "particle filter": particle_filter,
    "mixture of experts": moe_router,
    "personal PageRank": pagerank,
}
_HEAD = """# Three programs, explained

What `explain` says of three of the [examples](../examples) at their short
sizes, with jax 0.10.2 on a processor with AVX-512, and everything exact on.
This page is made by `//accelerate/examples:compare_explained`, and a test
compares it.

"Plain HLO" is XLA's own operations, without a custom call, and an operation
that is "written out" is replaced by them. A loop is one function, or its body
is a list of "tasks", which are slower ([loops](loops.md)).
"""


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


def compare(name: str, short: bool, rounds: int) -> None:
    """Prints a line."""
    module = PROGRAMS[name]
    args = jax.block_until_ready(module.arguments(short))
    compiled = []
    for setting in (xla_ffi_accelerate.disabled, xla_ffi_accelerate.enabled):
        with setting():
            run = jax.jit(module.program).lower(*args).compile()
        compiled.append(functools.partial(run, *args))
    same = check(module, *(run() for run in compiled))
    times = [list(map(milliseconds, compiled)) for _ in range(rounds)]
    without, with_kit = map(statistics.median, zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    print(
        f"{name:20} {without:9.2f} ms, accelerated {with_kit:9.2f} ms: "
        f"{ratio:.1f} times as fast, {same}"
    )


def page() -> str:
    """The page accelerate/docs/explained.md."""
    parts = [_HEAD]
    for name, module in PROGRAMS.items():
        with xla_ffi_accelerate.enabled():
            explained = xla_ffi_accelerate.explain(module.program)
            table = explained(*module.arguments(True))
        title = name[0].upper() + name[1:]
        parts.append(f"## {title}\n\n```text\n{table}\n```\n")
    return "\n".join(parts)


def main(arguments: Sequence[str]) -> None:
    if "--explain" in arguments:
        print(page(), end="")
        return
    short = "--short" in arguments
    chosen = [name for name in PROGRAMS if name in arguments]
    for name in chosen or PROGRAMS:
        compare(name, short, rounds=1 if short else 7)


if __name__ == "__main__":
    main(sys.argv[1:])
