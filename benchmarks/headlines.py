"""The figures that the kernels are to reach, and the cells that show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from measure import Row

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
    faster: dict[str, float]
    slower: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """A figure that was reached or not.

    Attributes:
      cell: its name.
      against: the contestant.
      must: the figure.
      got: what was measured, best run.
      score: how much of the figure that is; 1 or more is reached.
    """

    cell: str
    against: str
    must: float
    got: float
    score: float


def _rms(rest: str, xla: float, loop: float, **slower: float) -> Target:
    bounds = {
        name.replace("_huge", ", huge pages"): v for name, v in slower.items()
    }
    return Target(f"rms_norm/{rest}", {"xla": xla, "tutorial": loop}, bounds)


_MIDDLE = ("1024x1024", "64x65536", "65536x64")

TARGETS = (
    _rms("fwd/f32/8x4/fresh", 1.15, 0.97),
    _rms("fwd/f32/1024x1024/fresh", 1.5, 2.5, copy=2.0),
    _rms("fwd/f32/4096x4096/fresh", 1.3, 3.3, copy_huge=1.1),
    _rms("fwd/f32/4096x4096/donated", 5, 12, copy=1.0),
    _rms("fwd/f32/64x65536/fresh", 1.6, 3.5, copy=1.6),
    _rms("fwd/f32/65536x64/fresh", 1.7, 2.2, copy=1.25),
    _rms("bwd/f32/1024x1024/fresh", 2.3, 2),
    _rms("bwd/f32/64x65536/fresh", 4, 3),
    _rms("bwd/f32/65536x64/fresh", 2.8, 1.9),
    *(
        _rms(f"{direction}/{dtype}/{shape}/fresh", xla, 4)
        for direction, xla in (("fwd", 1.7), ("bwd", 6))
        for dtype in ("bf16", "f16")
        for shape in _MIDDLE
    ),
    *(_rms(f"fwd/f32/{shape}/grad", 2, 4) for shape in _MIDDLE),
)


def judge(
    wanted: Iterable[Target], runs: Iterable[Iterable[Row]]
) -> list[Verdict]:
    """The best of several runs, for every figure whose cell was measured."""
    best: dict[tuple[str, str], Verdict] = {}
    targets = {target.cell: target for target in wanted}
    for run in runs:
        for row in run:
            target = targets.get(row.name)
            for verdict in _of(target, row) if target else ():
                key = (verdict.cell, verdict.against)
                if key not in best or best[key].score < verdict.score:
                    best[key] = verdict
    return list(best.values())


def _of(target: Target, row: Row) -> Iterable[Verdict]:
    for against, must in target.faster.items():
        got = row.ratios[against].median
        yield Verdict(row.name, f"x {against}", must, got, got / must)
    for against, most in target.slower.items():
        took = 1 / row.ratios[against].median
        yield Verdict(row.name, f"<= x {against}", most, took, most / took)


def conclusion(verdicts: list[Verdict]) -> str:
    """One line: how many figures are reached, and the worst."""
    met = sum(v.score >= 1 for v in verdicts)
    worst = min(verdicts, key=lambda v: v.score)
    return (
        f"{met} of {len(verdicts)} figures reached; worst: {worst.cell} "
        f"{worst.against}: {worst.got:.2f}, must be {worst.must:g}"
    )
