"""The arithmetic of the benchmark: no JAX, no GPU."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Sequence

# The largest L2 cache of a GPU known to the kit has 126 MB; what a program
# touches before it comes back to a buffer is four times as much.
ROTATION_BYTES = 512 << 20


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times faster the kit is: median and quartiles over rounds."""

    median: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Sample:
    """One contestant's calls in a row.

    Attributes:
      dispatched: seconds until the host had asked for the last call.
      finished: seconds until the GPU was done.
      calls: how many there were.
    """

    dispatched: float
    finished: float
    calls: int

    @property
    def seconds(self) -> float:
        """Of a call."""
        return self.finished / self.calls

    @property
    def is_host_bound(self) -> bool:
        """Whether the GPU may have waited for the host rather than worked."""
        return self.dispatched > 0.9 * self.finished


@dataclasses.dataclass(frozen=True)
class Row:
    """A measured cell; each contestant's numbers by its name.

    Attributes:
      name: the cell's.
      bytes: what a call reads and writes, at least.
      microseconds: median time of a call.
      gigabytes_per_second: `bytes` in that time.
      ratios: a contestant's time divided by the kit's, round by round.
      host_bound: contestants that the host may have slowed down.
      rounds: how often each ran.
    """

    name: str
    bytes: int
    microseconds: dict[str, float]
    gigabytes_per_second: dict[str, float]
    ratios: dict[str, Ratio]
    host_bound: list[str]
    rounds: int


def sets_needed(call_bytes: int) -> int:
    """How many sets of buffers keep each call from finding its data cached."""
    return max(2, -(-ROTATION_BYTES // call_bytes))


def repeats_needed(seconds_of_program: float, wanted: float) -> int:
    """How often a program runs in a sample of `wanted` seconds."""
    return max(1, round(wanted / max(seconds_of_program, 1e-9)))


def ratio(rounds: Sequence[tuple[float, float]]) -> Ratio:
    """Of a contestant to the kit, from (contestant, kit) seconds of rounds."""
    values = sorted(other / kit for other, kit in rounds)
    if len(values) == 1:
        return Ratio(values[0], values[0], values[0])
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return Ratio(median, low, high)


def summarize(
    name: str, call_bytes: int, rounds: Sequence[dict[str, Sample]]
) -> Row:
    """A row, from each round's sample of each contestant."""
    names = list(rounds[0])
    seconds = {
        n: statistics.median(r[n].seconds for r in rounds) for n in names
    }
    return Row(
        name,
        call_bytes,
        {n: 1e6 * s for n, s in seconds.items()},
        {n: call_bytes / s / 1e9 for n, s in seconds.items()},
        {
            n: ratio([(r[n].seconds, r["kit"].seconds) for r in rounds])
            for n in names
            if n != "kit"
        },
        [
            n
            for n in names
            if sum(r[n].is_host_bound for r in rounds) * 2 > len(rounds)
        ],
        len(rounds),
    )
