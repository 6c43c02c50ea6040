"""Times what runs in this process: contestants take turns.

In every round each contestant runs once, in an order drawn anew, so that what
else the machine does weighs on all alike; a ratio is the median of the rounds'
own ratios.
"""

from __future__ import annotations

import dataclasses
import random
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

Run = Callable[[], Any]
Made = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]
_SAMPLE_SECONDS = 2e-3  # below, several calls make a sample
_ROUNDS = (5, 60)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One comparison.

    Attributes:
      name: operation, direction, dtype, shape and regime, or the like.
      bytes: that the operation has to move, each operand and result once.
      make: returns contestant -> (function, operands), compiled functions that
        take the operands and return a result; the first operand is given up
        where the regime is "donated".
      calls: operations in one call of the function.
      tolerance: how far the contestants' results may differ, relative.
    """

    name: str
    bytes: int
    make: Callable[[], Made]
    calls: int = 1
    tolerance: float | None = None

    @property
    def regime(self) -> str:
        return self.name.rpartition("/")[2]


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times faster the kit is: median and quartiles over rounds."""

    median: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured cell.

    Attributes:
      name: the cell's.
      microseconds: contestant -> median time of an operation.
      ratios: contestant -> its time divided by the kit's.
      faults: contestant -> page faults per call.
      gigabytes_per_second: what the kit moves.
      ynnpack: whether XLA's own code runs YNNPACK.
      rounds: how often each ran.
    """

    name: str
    microseconds: dict[str, float]
    ratios: dict[str, Ratio]
    faults: dict[str, float]
    gigabytes_per_second: float | None
    ynnpack: bool
    rounds: int


@dataclasses.dataclass
class Contestant:
    """What takes part, with the time of a call and its page faults by round."""

    run: Run
    calls: int = 1
    seconds: list[float] = dataclasses.field(default_factory=list)
    faults: list[float] = dataclasses.field(default_factory=list)

    def sample(self) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start = time.perf_counter()
        for _ in range(self.calls):
            result = self.run()
        jax.block_until_ready(result)
        spent = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.seconds.append(spent / self.calls)
        self.faults.append((after - before) / self.calls)


def take_turns(
    runs: Mapping[str, Run], seconds: float
) -> dict[str, Contestant]:
    """Runs all of them for about that many seconds."""
    contestants = {name: Contestant(run) for name, run in runs.items()}
    order = list(contestants.values())
    for contestant in order:
        contestant.sample()  # warms caches and the allocator
        contestant.sample()
        once = max(contestant.seconds[-1], 1e-7)
        contestant.calls = max(1, min(1000, int(_SAMPLE_SECONDS / once)))
    round_seconds = sum(c.seconds[-1] * c.calls for c in order)
    least, most = _ROUNDS
    for contestant in order:
        contestant.seconds.clear()
        contestant.faults.clear()
    shuffle = random.Random(0).shuffle
    for _ in range(max(least, min(most, int(seconds / round_seconds)))):
        shuffle(order)
        for contestant in order:
            contestant.sample()
    return contestants


def least(runs: Mapping[str, Run], seconds: float) -> dict[str, float]:
    """The least time of a call of each, in microseconds."""
    found = take_turns(runs, seconds)
    return {name: min(c.seconds) * 1e6 for name, c in found.items()}


def ratio(other: Contestant, kit: Contestant) -> Ratio:
    """How many times faster the kit is than another one."""
    pairs = zip(other.seconds, kit.seconds, strict=True)
    low, median, high = statistics.quantiles((a / b for a, b in pairs), n=4)
    return Ratio(median, low, high)


def prepared(
    function: Any, operands: tuple[Any, ...], regime: str
) -> tuple[Any, Run]:
    """What `function` is compiled to, and a call of it that waits."""
    compiled = function  # NumPy, or a function that is called eagerly
    if hasattr(function, "lower"):
        compiled = function.lower(*operands).compile()
    if regime != "donated":
        return compiled, lambda: jax.block_until_ready(compiled(*operands))
    # A donated array is gone, so the result is the next call's operand.
    *others, first = operands
    state = [first.copy()]

    def run() -> Any:
        state[0] = jax.block_until_ready(compiled(*others, state[0]))
        return state[0]

    return compiled, run


def measure(cell: Cell, seconds: float) -> Row:
    """Measures one cell for about that many seconds, and compares results."""
    made = {n: prepared(*m, cell.regime) for n, m in cell.make().items()}
    runs = {name: run for name, (_, run) in made.items()}
    _compare(cell, {name: run() for name, run in runs.items()})
    found = take_turns(runs, seconds)
    median = {name: statistics.median(c.seconds) for name, c in found.items()}
    xla, kit = made["xla"][0], found["kit"]
    return Row(
        cell.name,
        {name: m / cell.calls * 1e6 for name, m in median.items()},
        {name: ratio(c, kit) for name, c in found.items() if c is not kit},
        {n: statistics.median(c.faults) for n, c in found.items()},
        cell.bytes * cell.calls / median["kit"] / 1e9 if cell.bytes else None,
        hasattr(xla, "as_text") and "__ynn_fusion" in xla.as_text(),
        len(kit.seconds),
    )


def _compare(cell: Cell, results: dict[str, Any]) -> None:
    if cell.tolerance is None:
        return
    for name in {"kit", "tutorial"} & results.keys():
        message = f"{cell.name}: {name} and XLA disagree"
        pairs = zip(
            jax.tree.leaves(results[name]),
            jax.tree.leaves(results["xla"]),
            strict=True,
        )
        for pair in pairs:
            _compare_arrays(*map(np.asarray, pair), cell.tolerance, message)


def _compare_arrays(
    got: np.ndarray, expected: np.ndarray, tolerance: float, message: str
) -> None:
    if not tolerance:
        np.testing.assert_array_equal(got, expected, message)
        return
    if not np.issubdtype(expected.dtype, np.inexact):  # bfloat16
        got, expected = got.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(
        got,
        expected,
        rtol=tolerance,
        atol=tolerance * float(np.abs(expected).max()),
        err_msg=message,
    )
