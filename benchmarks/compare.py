"""The kit beside XLA's own code, the tutorial's loop and a copy.

    tools/bazel run -c opt //benchmarks:compare
    tools/bazel run -c opt //benchmarks:compare -- --only rms_norm/bwd sort
        --json FILE --plot FILE.png
    tools/bazel run -c opt //benchmarks:compare -- --publish
    tools/bazel run -c opt //benchmarks:compare -- --jax 0.12.0.1 --publish

A cell is measured if its name contains one of --only. Sizes, regimes and what
is beside what: cells.py. Another package's benchmark is `main` with a suite of
its own.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time
from collections.abc import Sequence

import jax

import kit_page
import publish
import report
from cells import Cell, kit_cells
from measure import Row, measure
from suite import Suite

_QUICK = (
    "rms_norm/fwd/f32/1024x1024/fresh",
    "rms_norm/bwd/f32/1024x1024/fresh",
    "rms_norm/fwd/bf16/1024x1024/fresh",
    "rms_norm/fwd/f32/64x256/chain",
    "relu/fwd/f32/1024x1024/fresh",
    "modular_add/fwd/f32/1024x1024/fresh",
)
KIT = Suite(kit_cells, _QUICK, kit_page.KIT, "docs/performance.png")


def select(
    suite: Suite, only: Sequence[str], quick: bool = False
) -> list[Cell]:
    """The cells whose name contains one of `only`; all without any."""
    return [
        cell
        for cell in suite.cells()
        if (not only or any(part in cell.name for part in only))
        and (not quick or cell.name in suite.quick)
    ]


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


def parser(description: str) -> argparse.ArgumentParser:
    """The options that the gate has too."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--only", nargs="+", default=[], metavar="PART", help="of a cell's name"
    )
    made.add_argument("--json", metavar="FILE", help="also write all numbers")
    made.add_argument(
        "--seconds", type=float, default=2.0, help="per cell (default: 2)"
    )
    return made


def draw(path: str, rows: Sequence[Row]) -> None:
    """Writes the plot."""
    # Imported here: environments with another JAX have no matplotlib.
    import plot

    plot.draw(path, rows)


def on_another_jax(version: str, program: str, arguments: Sequence[str]) -> int:
    """Runs the same command line where that JAX is; its exit status."""
    # Imported here: the program that runs there neither has nor needs it.
    import another_jax

    if version not in another_jax.environments.VERSIONS:
        known = ", ".join(another_jax.environments.VERSIONS)
        sys.exit(f"--jax: expected one of {known}, got {version}")
    *_, newest = another_jax.environments.VERSIONS
    if "--publish" in arguments and version != newest:
        sys.exit(
            f"--publish --jax: expected {newest}, the newest, got {version}"
        )
    return another_jax.again(version, program, arguments)


def main(
    arguments: Sequence[str] | None = None,
    suite: Suite = KIT,
    program: str = __file__,
) -> int:
    """Runs the command line of a benchmark.

    Args:
      arguments: default: those of the process.
      suite: what is measured.
      program: the path of the file that was started, for --jax.
    """
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--plot", metavar="FILE", help="also draw: PNG, SVG")
    options.add_argument("--quick", action="store_true", help="few cells")
    options.add_argument("--list", action="store_true", help="print the names")
    options.add_argument(
        "--publish",
        action="store_true",
        help="write the tree's measured.json, measured.md and pictures",
    )
    options.add_argument(
        "--pages", action="store_true", help="write them, except measured.json"
    )
    options.add_argument(
        "--jax", metavar="VERSION", help="on another release, with the wheels"
    )
    chosen = options.parse_args(arguments)
    another = chosen.jax not in (None, jax.__version__)
    if another:
        given = sys.argv[1:] if arguments is None else arguments
        return on_another_jax(chosen.jax, program, given)
    jax.config.update("jax_enable_x64", True)
    os.chdir(os.environ.get("BUILD_WORKING_DIRECTORY", "."))
    root = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    if chosen.pages:
        publish.write(suite.publication, root)
        return 0
    cells = select(suite, chosen.only, chosen.quick)
    if not cells:
        options.error(f"--only: no cell's name contains {chosen.only}")
    if chosen.publish and (chosen.only or chosen.quick):
        options.error("--publish: takes all cells; leave out --only, --quick")
    if chosen.list:
        print("\n".join(cell.name for cell in cells))
        return 0
    rows = run(cells, 0.5 if chosen.quick else chosen.seconds)
    print(f"\n{report.summary(rows)}")
    if chosen.json:
        report.write(chosen.json, rows)
    if chosen.plot:
        draw(chosen.plot, rows)
    if chosen.publish:
        report.publish(root / suite.publication.data, rows, bool(chosen.jax))
        if not chosen.jax:
            draw(str(root / suite.plot), rows)
        publish.write(suite.publication, root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
