"""The figures that a benchmark's cells are to reach."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bench.measure import Row

ENOUGH = 0.8  # of a figure, on a machine that others use too


@dataclasses.dataclass(frozen=True)
class Target:
    """What one cell has to reach.

    Attributes:
      cell: its name.
      faster: contestant -> how many times faster than it the kit must be.
      slower: contestant -> how many times its time the kit may take.
    """

    cell: str
    faster: Mapping[str, float]
    slower: Mapping[str, float] = dataclasses.field(default_factory=dict)


class Verdict(NamedTuple):
    """A figure of a cell, and what was got; a score of 1 or more reaches it."""

    cell: str
    against: str
    must: float
    got: float
    score: float

    def __str__(self) -> str:
        return (
            f"{self.cell} {self.against}: {self.got:.2f}, must be {self.must:g}"
        )


def judge(
    wanted: Iterable[Target], runs: Iterable[Iterable[Row]]
) -> list[Verdict]:
    """The best of several runs, for every figure whose cell was measured."""
    best: dict[tuple[str, str], Verdict] = {}
    targets = {target.cell: target for target in wanted}
    for row in (row for run in runs for row in run if row.name in targets):
        for verdict in _of(targets[row.name], row):
            found = best.setdefault(verdict[:2], verdict)
            best[verdict[:2]] = max(found, verdict, key=lambda v: v.score)
    return list(best.values())


def _of(target: Target, row: Row) -> Iterable[Verdict]:
    for against, must in target.faster.items():
        got = row.ratios[against].median
        yield Verdict(row.name, f"x {against}", must, got, got / must)
    for against, most in target.slower.items():
        took = 1 / row.ratios[against].median
        yield Verdict(row.name, f"<= x {against}", most, took, most / took)


def conclusion(verdicts: Sequence[Verdict]) -> str:
    """One line: how many figures are reached, and the worst."""
    met = sum(v.score >= 1 for v in verdicts)
    worst = min(verdicts, key=lambda v: v.score)
    return f"{met} of {len(verdicts)} figures reached; worst: {worst}"
