"""Programs by JAX's own code and with the package: command line and figures.

A row is of a program: the times in each run by mode, under "ms" or "ns" of a
step, and those of its first calls.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# What a process has in XLA_FFI_ACCELERATE.
MODES = {"plain": "", "exact": "exact", "all": "all"}
# Less than that is slower than JAX's own code, and no noise.
LEAST = 0.97

Row = Mapping[str, Any]


def parser(doc: str, rounds: int, seconds: float) -> argparse.ArgumentParser:
    """The options of all such benchmarks."""
    made = argparse.ArgumentParser(description=doc.splitlines()[0])
    made.add_argument("--only", nargs="*", default=[], metavar="WORD")
    made.add_argument("--runs", type=int, default=3, help="of new processes")
    made.add_argument("--rounds", type=int, default=rounds, help="of each run")
    made.add_argument("--seconds", type=float, default=seconds)
    made.add_argument("--json", help="write the figures to this file")
    made.add_argument("--publish", action="store_true")
    return made


def chosen(
    made: argparse.ArgumentParser, names: Iterable[str], words: Sequence[str]
) -> list[str]:
    """The names that have any of the words; all without any."""
    found = [n for n in names if not words or any(w in n for w in words)]
    if not found:
        made.error(f"--only: no program has any of {words} in its name")
    return found


def least(row: Row, mode: str) -> float:
    """The time in the fastest run."""
    return float(min(_times(row)[mode]))


def _times(row: Row) -> Mapping[str, Sequence[float]]:
    return row["ms"] if "ms" in row else row["ns"]  # type: ignore[no-any-return]


def ratio(row: Row, mode: str) -> float:
    """How many times as fast as JAX's own code, by the least of all runs."""
    return least(row, "plain") / least(row, mode)


def first(row: Row) -> float:
    """How long the first call takes with exact names, of plain JAX's."""
    times = row["first"]
    return statistics.median(times["exact"]) / statistics.median(times["plain"])


def slower(rows: Sequence[Row], quote: str = "") -> str:
    """What loses in each of the runs, with its mode."""
    return ", ".join(
        f"{quote}{row['name']}{quote} ({mode})"
        for mode in ("exact", "all")
        for row in rows
        if _is_slower(_times(row), mode)
    )


def _is_slower(times: Mapping[str, Sequence[float]], mode: str) -> bool:
    pairs = zip(times["plain"], times[mode], strict=True)
    return all(plain < LEAST * time for plain, time in pairs)


def mean(ratios: Iterable[float]) -> float:
    """The geometric mean."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def both(row: Row) -> list[str]:
    """How many times as fast exact names and all names are."""
    return [f"{ratio(row, mode):.2f}" for mode in ("exact", "all")]


def means(rows: Sequence[Row]) -> list[str]:
    """The geometric means of exact names and of all, and the least of each."""
    ratios = [[ratio(row, mode) for row in rows] for mode in ("exact", "all")]
    return [f"{of(r):.2f}" for of in (mean, min) for r in ratios]


def summary(rows: Sequence[Row]) -> str:
    """How many there are, means and the least."""
    good = [row for row in rows if "failed" not in row]
    texts = [f"{len(good)} programs, {len(rows) - len(good)} failed"]
    for mode in ("exact", "all") if good else ():
        ratios = {row["name"]: ratio(row, mode) for row in good}
        worst = min(ratios, key=lambda name: ratios[name])
        texts.append(
            f"{mode}: geometric mean {mean(ratios.values()):.2f} x, least "
            f"{ratios[worst]:.2f} x ({worst})"
        )
    if good:
        most = max(good, key=first)
        texts.append(
            f"below {LEAST} in each run: {slower(good) or 'none'}\n"
            f"first calls, exact: geometric mean {mean(map(first, good)):.2f} "
            f"of plain JAX's, most {first(most):.2f} ({most['name']})"
        )
    return "\n".join(texts)
