"""docs/measured.md and docs/bars.svg, out of benchmarks/measured.json.

    tools/bazel run //benchmarks:measured_page

`//benchmarks:compare -- --publish` measures, and then writes all three.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from bars import bars
from figures import Figure, digits, duration, read, three

DATA = "benchmarks/measured.json"
PAGE = "docs/measured.md"
BARS = "docs/bars.svg"

_INTRODUCTION = """\
# Measured

Written by `tools/bazel run //benchmarks:measured_page` from
[`measured.json`](../benchmarks/measured.json), the figures of
`tools/bazel run -c opt //benchmarks:compare -- --publish`. How they are
measured, and what they mean: [performance.md](performance.md).

{machine}.

A number without a unit is the other's time divided by the kit's: 2 means that
the kit takes half as long. "Loop" is the FFI tutorial's, "copy" a copy of the
same bytes on the same threads.
"""


class Table(NamedTuple):
    """A table of the page, with the figures of some cells."""

    title: str
    takes: Callable[[Figure], bool]
    heading: str
    label: Callable[[Figure], str]
    rest: Callable[[Figure], Iterable[str]]


def _shape(size: str) -> str:
    return f"({size.replace('x', ', ')})"


def _against(*names: str) -> Callable[[Figure], Iterable[str]]:
    def cells(figure: Figure) -> Iterable[str]:
        yield duration(figure.microseconds["kit"])
        for name in names:
            ratio = figure.ratios.get(name)
            yield "-" if ratio is None else digits(ratio)

    return cells


def _beside_jax(figure: Figure) -> Iterable[str]:
    size = figure.parts[3]
    yield " x ".join(f"{int(n):,}" for n in size.split("x"))
    for name in ("xla", "kit", "numpy"):
        yield three(figure.microseconds[name] / 1000)
    for name in ("xla", "numpy"):
        yield digits(figure.ratios[name])


def _function(figure: Figure) -> str:
    name = figure.parts[1].replace("_", " ")
    return f"{name}, eager" if figure.parts[4] == "eager" else name


def _operation(figure: Figure) -> str:
    name, direction, dtype, size, regime = figure.parts
    back = ", backward" if direction == "bwd" else ""
    return f"`{name}` {dtype} {_shape(size)}, {regime}{back}"


_KIT = "kit | x XLA | x loop | x copy | x copy to huge pages"
_BOUNDS = _against("xla", "tutorial", "copy", "copy, huge pages")


def _norm(direction: str) -> Callable[[Figure], bool]:
    def takes(figure: Figure) -> bool:
        name, way, _, _, regime = figure.parts
        return (name, way, regime) == ("rms_norm", direction, "fresh")

    return takes


# A figure stands in the first table that takes it; the last takes all.
TABLES = (
    *(
        Table(
            f"`rms_norm`, {words}",
            _norm(direction),
            f"dtype, shape | {_KIT}",
            lambda f: f"{f.parts[2]} {_shape(f.parts[3])}",
            _BOUNDS,
        )
        for direction, words in (
            ("fwd", "forward, a fresh result"),
            ("bwd", "backward"),
        )
    ),
    Table(
        "`rms_norm` f32 in other regimes",
        lambda f: f.parts[0] == "rms_norm" and f.parts[4] != "chain",
        f"regime, shape | {_KIT}",
        lambda f: f"{f.parts[4]}, {_shape(f.parts[3])}",
        _BOUNDS,
    ),
    Table(
        "accelerate()",
        lambda f: f.parts[0] == "accelerate",
        "function | shape | JAX ms | kit ms | NumPy ms | x JAX | x NumPy",
        _function,
        _beside_jax,
    ),
    Table(
        "A call of a hundred in one program",
        lambda f: f.parts[4] == "chain",
        "operation | kit | x XLA | x loop",
        _operation,
        _against("xla", "tutorial"),
    ),
    Table(
        "Other operations",
        lambda f: True,
        f"operation | {_KIT}",
        _operation,
        _BOUNDS,
    ),
)


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _machine(environment: dict[str, Any]) -> str:
    e = environment
    return (
        f"{e['cores']} cores ({e['cpu']}, {', '.join(e['isa'])}), jax "
        f"{e['jax']}, huge pages on {e['huge pages']}"
    )


def page(environment: dict[str, Any], figures: list[Figure]) -> str:
    """The text of docs/measured.md."""
    text = _INTRODUCTION.format(machine=_machine(environment))
    left = [f for f in figures if not f.name.startswith("sweep/")]
    for table in TABLES:
        taken = [figure for figure in left if table.takes(figure)]
        left = [figure for figure in left if not table.takes(figure)]
        if taken:
            count = table.heading.count("|") + 1
            lines = [_row([table.heading]), f"|{'---|' * count}"]
            lines += [_row([table.label(f), *table.rest(f)]) for f in taken]
            text += f"\n## {table.title}\n\n" + "\n".join(lines) + "\n"
    return text


def written(root: pathlib.Path) -> dict[str, str]:
    """What the files below `root` ought to contain, by path."""
    environment, figures = read((root / DATA).read_text())
    return {PAGE: page(environment, figures), BARS: bars(figures)}


def write(root: pathlib.Path) -> None:
    """Writes the page and the picture below `root`."""
    for path, text in written(root).items():
        (root / path).write_text(text)


if __name__ == "__main__":
    write(pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")))
    sys.exit(0)
