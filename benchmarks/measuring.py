"""Functions that take turns, so that what else runs meets all of them; their
times as tables, and the pages that end with these."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import metadata
from typing import NamedTuple

_MEASURED = "\nMeasured on "


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


def table(heading: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def digits(value: float) -> str:
    """Three digits: 0.503, 12.2, 299."""
    return f"{value:#.3g}".rstrip(".")


def duration(seconds: float) -> str:
    """Three digits with a unit."""
    unit, size = next(
        (u, s)
        for u, s in (("s", 1), ("ms", 1e-3), ("us", 1e-6))
        if seconds >= s or u == "us"
    )
    return f"{digits(seconds / size)} {unit}"


def processor() -> str:
    """Cores, the processor's name and its vectors."""
    info = pathlib.Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    models = [s for s in text.splitlines() if s.startswith("model name")]
    model = models[0].partition(": ")[2] if models else platform.machine()
    isa = [i for i in ("avx512f", "avx2") if f" {i} " in text][:1]
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} core{'s' if cores > 1 else ''} ({', '.join([model, *isa])})"
    )


def machine() -> str:
    """The processor and the release of JAX, in one line."""
    return f"{processor()}, jax {metadata.version('jax')}"


def publish(path: str, tables: str) -> None:
    """Writes the tables into a page of the tree, behind its own sentences."""
    root = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    page = root / path
    sentences = page.read_text().partition(_MEASURED)[0]
    today = datetime.date.today()
    page.write_text(f"{sentences}{_MEASURED}{today}: {machine()}.\n\n{tables}")
