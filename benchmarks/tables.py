"""Tables of measurements, and the pages that end with them."""

from __future__ import annotations

import datetime
import os
import pathlib
import platform
from collections.abc import Iterable, Sequence
from importlib import metadata

_MEASURED = "\nMeasured on "


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
