"""Times functions that take turns, so that what else runs meets all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple


class Times(NamedTuple):
    """Seconds of a call.

    Attributes:
      median: of all calls.
      least: of all calls.
    """

    median: float
    least: float


def turns(
    functions: Mapping[str, Callable[[], object]], seconds: float
) -> dict[str, Times]:
    """Calls each in turn, for so many seconds in all, and once at least.

    A function returns when its work is done.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    end = time.perf_counter() + seconds
    while True:
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            times[name].append(time.perf_counter() - began)
        if time.perf_counter() >= end:
            return {
                name: Times(statistics.median(found), min(found))
                for name, found in times.items()
            }
