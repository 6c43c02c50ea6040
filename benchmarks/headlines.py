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


def _jax(name: str, size: str, xla: float, numpy: float | None) -> Target:
    faster = {"xla": xla} | ({"numpy": numpy} if numpy else {})
    return Target(f"accelerate/{name}/{size}/fresh", faster)


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
    *(
        Target(
            f"rms_norm_block/fwd/f32/{shape}/fresh",
            {"xla": 1.0, "tutorial": 2.2},
        )
        for shape in ("1024x1024", "4096x4096", "64x65536", "65536x64")
    ),
    *(_rms(f"fwd/f32/{shape}/grad", 2, 4) for shape in _MIDDLE),
    *(
        _jax(f"sort_{dtype}", size, xla, 0.95)
        for dtype, xla in (("f32", 50), ("i32", 12))
        for size in ("100000", "1000000", "10000000")
    ),
    _jax("sort_f32", "1024x1024", 50, 1.0),
    _jax("argsort_f32", "1000000", 25, 1.5),
    _jax("sort_key,_payload", "1000000", 25, 1.5),
    _jax("argsort_f32", "1024x1024", 15, 1.0),
    _jax("top_k,_64", "1024x1024", 7, 1.0),
    _jax("top_k,_64", "1000000", 1.2, 1.0),
    _jax("median", "1000000", 50, 1.0),
    _jax("percentile,_three", "1000000", 15, 1.0),
    _jax("permutation", "1000000", 15, None),
    _jax("choice", "1000000", 15, None),
    _jax("unique", "1000000", 8, None),
    # JAX's own, under accelerate(), beside those of the kit.
    _jax("isin", "1000000", 8, None),
    _jax("isin,_by_default", "100000", 1.0, None),
    _jax("isin_of_the_kit", "1000000", 100, None),
    _jax("median_of_rows", "1000000x8", 3, None),
    _jax("unique_of_the_kit", "1000000", 8, None),
    *(
        Target(f"accelerate/{name}_of_the_kit/16/eager", {"xla": 1.0})
        for name in ("unique", "isin", "nonzero")
    ),
    _jax("nonzero,_accelerated", "16", 1.0, None),
    _jax("nonzero,_accelerated", "1000000", 2.5, None),
    _jax("nonzero_of_the_kit", "1000000", 8, 1.0),
    _jax("argmax_f32", "1000000", 8, 1.0),
    _jax("cumsum_f32", "1000000", 1.5, 1.0),
    _jax("random_bits", "1000000", 3, None),
    _jax("uniform_f32", "1000000", 3, None),
    _jax("normal_f32", "1000000", 1.5, None),
    _jax("randint_i32", "1000000", 4, None),
    _jax("bernoulli", "1000000", 4, None),
    _jax("gamma_f32", "100000", 1.7, None),
    _jax("beta_f32", "100000", 1.7, None),
    _jax("categorical", "10000x100", 1.0, None),
    _jax("poisson,_30", "10000", 1.0, None),
    _jax("cummax_f32", "1000000", 5, None),
    _jax("cumlogsumexp_f32", "1000000", 15, None),
    *(
        _jax(f"{name}_f32", "1000000", 4, None)
        for name in ("sin", "cos", "tan", "asin", "acos", "atan2", "cbrt")
    ),
    _jax("power_f32", "1000000", 1.5, None),
    _jax("loss_of_sines,_and_gradient", "1000000", 1.0, None),
    _jax("sort_f32", "1000000x8", 3, None),
    _jax("matmul,_small", "10000x4x4", 20, None),
    _jax("BCSR_@_vector", "20000x20", 6, None),
    _jax("BCOO_@_matrix", "20000x20", 12, None),
    _jax("BCOO_@_vector", "20000x20", 1.5, None),
)


def judge(runs: Iterable[Iterable[Row]]) -> list[Verdict]:
    """The best of several runs, for every figure whose cell was measured."""
    best: dict[tuple[str, str], Verdict] = {}
    targets = {target.cell: target for target in TARGETS}
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
