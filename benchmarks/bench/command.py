"""The command line of a benchmark of cells.

    tools/bazel run -c opt //benchmarks:compare
    tools/bazel run -c opt //benchmarks:compare -- --only rms_norm/bwd sort
        --json FILE --plot FILE.png
    tools/bazel run -c opt //benchmarks:compare -- --publish
    tools/bazel run -c opt //benchmarks:compare -- --jax 0.12.0.1 --publish
    tools/bazel run -c opt //benchmarks:gate
    tools/bazel run //benchmarks:libraries -- OTHER.so --only rms_norm/bwd

A cell is measured if its name contains one of --only. //accelerate/benchmarks
has the same targets.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from bench import library, page, report
from bench.gate import ENOUGH, Target, conclusion, judge
from bench.measure import Cell, Row, measure, prepared, ratio, take_turns

_GATE_RUNS = 3
_OTHER = "other."


@dataclasses.dataclass(frozen=True)
class Suite:
    """A benchmark.

    Attributes:
      cells: makes all cells, those of several kinds.
      quick: the names of a cell of each kind, for --quick.
      publication: the files that --publish writes.
      targets: what the gate judges.
      own: how the names of the library's handlers begin.
    """

    cells: Callable[[], Iterable[Cell]]
    quick: tuple[str, ...]
    publication: page.Publication
    targets: Sequence[Target]
    own: str


def run(cells: Sequence[Cell], seconds: float) -> list[Row]:
    """Measures, printing a line for each cell as it is done."""
    rows = []
    print(report.heading(), flush=True)
    start = time.monotonic()
    for number, cell in enumerate(cells, start=1):
        rows.append(measure(cell, seconds))
        _progress("")
        print(report.line(rows[-1]), flush=True)
        spent = time.monotonic() - start
        left = spent / number * (len(cells) - number) / 60
        _progress(f"{number} of {len(cells)}, {left:.1f} min left")
    _progress("")
    return rows


def _progress(text: str) -> None:
    """A line on the terminal that the next one replaces."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def draw(path: str, rows: Sequence[Row]) -> None:
    """Writes the plot."""
    # Imported here: environments with another JAX have no matplotlib.
    from bench import plot

    plot.draw(path, rows)


def gate(suite: Suite, cells: Sequence[Cell], options: Any) -> int:
    """Fails when a headline figure falls below 0.8 of what it must be.

    Cells that miss a figure are measured again, three times at most; the best
    counts. The last line is the conclusion.
    """
    wanted = {target.cell for target in suite.targets}
    cells = [cell for cell in cells if cell.name in wanted]
    runs: list[list[Row]] = []
    while cells and len(runs) < _GATE_RUNS:
        runs.append(run(cells, options.seconds))
        verdicts = judge(suite.targets, runs)
        missed = {v.cell for v in verdicts if v.score < 1}
        cells = [cell for cell in cells if cell.name in missed]
    for verdict in sorted(verdicts, key=lambda v: v.score):
        if verdict.score < 1:
            word = "FAILED" if verdict.score < ENOUGH else "missed"
            print(f"{word} {verdict}")
    if options.json:
        report.write(options.json, [row for rows in runs for row in rows])
    print(conclusion(verdicts))
    return int(any(verdict.score < ENOUGH for verdict in verdicts))


def other(suite: Suite, cells: Sequence[Cell], options: Any) -> int:
    """A package's library beside another build of it, by another compiler.

    Both are loaded into this process and take turns. A ratio is the kit's time
    divided by the other's, so above 1 the other is faster; 1 if some results
    have other bits. Cells that call no handler are left out.
    """
    library.register(options.other, _OTHER)
    ratios, different = [], 0
    for cell in cells:
        kit = _calls(cell, suite.own)
        with library.calls(_OTHER):
            another = _calls(cell, _OTHER)
        if kit is None or another is None:
            continue
        same = _bits(kit()) == _bits(another())
        found = take_turns({"kit": kit, "other": another}, options.seconds)
        ratios.append(ratio(found["kit"], found["other"]).median)
        different += not same
        verdict = "" if same else "  OTHER BITS"
        print(f"{ratios[-1]:6.3f}  {cell.name}{verdict}", flush=True)
    print(
        f"{len(ratios)} cells, median {np.median(ratios):.3f}, "
        f"least {min(ratios):.3f}, {different} with other bits"
    )
    return min(different, 1)


def _calls(cell: Cell, name: str) -> Callable[[], Any] | None:
    """None if the compiled program calls no handler of that library."""
    if cell.regime == "eager":
        return None
    compiled, call = prepared(*cell.make()["kit"], cell.regime)
    is_called = f'custom_call_target="{name}' in compiled.as_text()
    return call if is_called else None


def _bits(results: Any) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(results)]


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = made.add_argument
    add(
        "--only", nargs="+", default=[], metavar="PART", help="of a cell's name"
    )
    add("--json", metavar="FILE", help="also write all numbers")
    add("--seconds", type=float, default=2.0, help="per cell (default: 2)")
    add("--plot", metavar="FILE", help="also draw: PNG, SVG")
    add("--quick", action="store_true", help="few cells")
    add("--list", action="store_true", help="print the names")
    every = "write the tree's measured.json, measured.md and pictures"
    add("--publish", action="store_true", help=every)
    every = "write them, except measured.json"
    add("--pages", action="store_true", help=every)
    every = "on another release, with the wheels"
    add("--jax", metavar="VERSION", help=every)
    add("--gate", action="store_true", help=gate.__doc__.splitlines()[0])
    add("--other", metavar="LIBRARY", help=other.__doc__.splitlines()[0])
    return made


def main(
    suite: Suite, program: str, arguments: Sequence[str] | None = None
) -> int:
    """Runs the command line of a benchmark.

    Args:
      suite: what is measured.
      program: the path of the file that was started, for --jax.
      arguments: default: those of the process.
    """
    given = sys.argv[1:] if arguments is None else arguments
    parser = _parser()
    chosen = parser.parse_args(given)
    if chosen.jax not in (None, jax.__version__):
        # Imported here: what runs there neither has nor needs it.
        from bench import another_jax

        return another_jax.again(chosen.jax, program, given)
    jax.config.update("jax_enable_x64", True)
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    root = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    if chosen.pages:
        page.write(suite.publication, root)
        return 0
    cells = [
        cell
        for cell in suite.cells()
        if (not chosen.only or any(part in cell.name for part in chosen.only))
        and (not chosen.quick or cell.name in suite.quick)
    ]
    if not cells:
        parser.error(f"--only: no cell's name contains {chosen.only}")
    if chosen.publish and (chosen.only or chosen.quick):
        parser.error("--publish: takes all cells; leave out --only, --quick")
    if chosen.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    if chosen.gate or chosen.other:
        return (gate if chosen.gate else other)(suite, cells, chosen)
    rows = run(cells, 0.5 if chosen.quick else chosen.seconds)
    print(f"\n{report.summary(rows)}")
    if chosen.json:
        report.write(chosen.json, rows)
    if chosen.plot:
        draw(chosen.plot, rows)
    if chosen.publish:
        _publish(suite.publication, root, rows, bool(chosen.jax))
    return 0


def _publish(
    publication: page.Publication,
    root: pathlib.Path,
    rows: Sequence[Row],
    another_jax: bool,
) -> None:
    report.publish(root / publication.data, rows, another_jax)
    if publication.plot and not another_jax:
        draw(str(root / publication.plot), rows)
    page.write(publication, root)
