"""Fails when a headline figure falls below 0.8 of what it must be.

    tools/bazel run -c opt //benchmarks:gate

Cells that miss a figure are measured again, three times at most; the best
counts. The last line is the conclusion.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import jax

import compare
import report
from compare import KIT
from headlines import ENOUGH, TARGETS, Target, conclusion, judge
from suite import Suite

_RUNS = 3


def main(
    arguments: Sequence[str] | None = None,
    suite: Suite = KIT,
    targets: Sequence[Target] = TARGETS,
) -> int:
    """Measures the cells that have targets; 1 if one falls short."""
    options = compare.parser(__doc__.splitlines()[0]).parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    wanted = {target.cell for target in targets}
    chosen = compare.select(suite, options.only)
    cells = [cell for cell in chosen if cell.name in wanted]
    runs = []
    for _ in range(_RUNS):
        runs.append(compare.run(cells, options.seconds))
        missed = {v.cell for v in judge(targets, runs) if v.score < 1}
        cells = [cell for cell in cells if cell.name in missed]
        if not cells:
            break
    verdicts = judge(targets, runs)
    print()
    for verdict in sorted(verdicts, key=lambda v: v.score):
        if verdict.score < 1:
            print(
                f"{'FAILED' if verdict.score < ENOUGH else 'missed'} "
                f"{verdict.cell} {verdict.against}: {verdict.got:.2f}, must be "
                f"{verdict.must:g}"
            )
    if options.json:
        report.write(options.json, [row for run in runs for row in run])
    print(conclusion(verdicts))
    return int(any(verdict.score < ENOUGH for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
