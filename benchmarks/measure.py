"""Times the contestants of a cell side by side.

In every round each contestant runs once, in an order drawn anew, so that what
else the machine does weighs on all alike; a ratio is the median of the rounds'
own ratios.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import random
import resource
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import numpy as np

import other_library
from cells import Cell
from xla_ffi_kit.ops import LIBRARIES

THREADS = "XLA_FFI_KIT_THREADS"
_SAMPLE_SECONDS = 2e-3  # below, several calls make a sample
_ONE_THREAD_BYTES = 1 << 20  # from here on the kit uses more than one thread
_ONE_THREAD_PREFIX = "one_thread."
_ROUNDS = (5, 60)


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
    run: Callable[[], Any]
    calls: int = 1
    seconds: list[float] = dataclasses.field(default_factory=list)
    faults: list[float] = dataclasses.field(default_factory=list)

    def sample(self) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start = time.perf_counter()
        for _ in range(self.calls):
            jax.block_until_ready(self.run())
        spent = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.seconds.append(spent / self.calls)
        self.faults.append((after - before) / self.calls)


def measure(cell: Cell, seconds: float) -> Row:
    """Measures one cell for about that many seconds, and compares results."""
    made = cell.make()
    contestants = {}
    results = {}
    compiled = {}
    for name, (function, operands) in made.items():
        compiled[name] = compiled_function(function, operands)
        run = runner(compiled[name], operands, cell.regime)
        contestants[name] = Contestant(run)
        results[name] = run()
    _compare(cell, results)
    results.clear()
    if cell.bytes >= _ONE_THREAD_BYTES and cell.regime != "eager":
        contestants["kit, 1 thread"] = Contestant(_on_one_thread(cell))
    rounds = run_rounds(list(contestants.values()), seconds)
    return _row(cell, contestants, rounds, _uses_ynnpack(compiled["xla"]))


def _on_one_thread(cell: Cell) -> Callable[[], Any]:
    _load_for_one_thread()
    with other_library.calls(_ONE_THREAD_PREFIX):
        function, operands = cell.make()["kit"]
        compiled = compiled_function(function, operands)
    return runner(compiled, operands, cell.regime)


@functools.cache
def _load_for_one_thread() -> None:
    # The number of threads is read when a library is loaded. What is loaded
    # already is not loaded again, so it is a copy.
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(LIBRARIES[0].path, folder)
        with mock.patch.dict(os.environ, {THREADS: "1"}):
            other_library.register(copy, _ONE_THREAD_PREFIX)


def compiled_function(function: Any, operands: Any) -> Any:
    if not hasattr(function, "lower"):
        return function  # NumPy, or a function that is called eagerly
    return function.lower(*operands).compile()


def runner(compiled: Any, operands: Any, regime: str) -> Callable[[], Any]:
    if regime != "donated":
        return lambda: compiled(*operands)
    # A donated array is gone, so the result is the next call's operand.
    *others, first = operands
    state = [first.copy()]

    def run() -> Any:
        state[0] = compiled(*others, state[0])
        return state[0]

    return run


def _compare(cell: Cell, results: dict[str, Any]) -> None:
    for name in ("kit", "tutorial"):
        if cell.tolerance is None or name not in results:
            continue
        pairs = zip(
            jax.tree.leaves(results[name]),
            jax.tree.leaves(results["xla"]),
            strict=True,
        )
        for got, expected in pairs:
            _compare_arrays(
                np.asarray(got),
                np.asarray(expected),
                cell.tolerance,
                f"{cell.name}: {name} and XLA disagree",
            )


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


def run_rounds(contestants: list[Contestant], seconds: float) -> int:
    for contestant in contestants:
        contestant.sample()  # warms caches and the allocator
        contestant.sample()
        once = max(contestant.seconds[-1], 1e-7)
        contestant.calls = max(1, min(1000, int(_SAMPLE_SECONDS / once)))
    round_seconds = sum(c.seconds[-1] * c.calls for c in contestants)
    least, most = _ROUNDS
    rounds = max(least, min(most, int(seconds / round_seconds)))
    for contestant in contestants:
        contestant.seconds.clear()
        contestant.faults.clear()
    order = list(contestants)
    shuffle = random.Random(0).shuffle
    for _ in range(rounds):
        shuffle(order)
        for contestant in order:
            contestant.sample()
    return rounds


def _row(
    cell: Cell,
    contestants: dict[str, Contestant],
    rounds: int,
    ynnpack: bool,
) -> Row:
    kit = contestants["kit"].seconds
    ratios = {}
    for name, contestant in contestants.items():
        if name == "kit":
            continue
        each = [a / b for a, b in zip(contestant.seconds, kit, strict=True)]
        low, median, high = statistics.quantiles(each, n=4)
        ratios[name] = Ratio(median, low, high)
    median = {
        name: statistics.median(c.seconds) for name, c in contestants.items()
    }
    return Row(
        cell.name,
        {name: m / cell.calls * 1e6 for name, m in median.items()},
        ratios,
        {n: statistics.median(c.faults) for n, c in contestants.items()},
        cell.bytes * cell.calls / median["kit"] / 1e9 if cell.bytes else None,
        ynnpack,
        rounds,
    )


def _uses_ynnpack(compiled: Any) -> bool:
    is_program = hasattr(compiled, "as_text")
    return is_program and "__ynn_fusion" in compiled.as_text()
