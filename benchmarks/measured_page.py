"""docs/measured.md, docs/bars.svg, README's figures, from measured.json.

    tools/bazel run //benchmarks:measured_page

`//benchmarks:compare -- --publish` measures, and then writes all of them.
"""

from __future__ import annotations

import os
import pathlib
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from bars import bars
from figures import Figure, digits, duration, newest, read, three

DATA = "benchmarks/measured.json"
PAGE = "docs/measured.md"
BARS = "docs/bars.svg"
README = "README.md"

# The ratio to XLA's own code on the newest JAX.
NEWEST = "xla, newest"

# What stands before and after a ratio in README, and its cell.
_SAID = (
    ("is ", " times as fast as XLA's", "rms_norm/fwd/bf16/1024x1024/fresh"),
    ("derivative ", " times", "rms_norm/bwd/bf16/1024x1024/fresh"),
    ("integers ", " times as fast", "accelerate/sort_i32/1000000/fresh"),
    ("lexsort ", " times", "accelerate/lexsort/1000000/fresh"),
)

_INTRODUCTION = """\
# Measured

Written by `tools/bazel run //benchmarks:measured_page` from
[`measured.json`](../benchmarks/measured.json), the figures of
`tools/bazel run -c opt //benchmarks:compare -- --publish`. How they are
measured, and what they mean: [performance.md](performance.md).

{machine}.

A number without a unit is the other's time divided by the kit's: 2 means that
the kit takes half as long. "Loop" is the FFI tutorial's, "copy" a copy of the
same bytes on the same threads.{newest}
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
        time = figure.microseconds.get(name)
        yield "-" if time is None else three(time / 1000)
    for name in ("xla", NEWEST, "numpy"):
        ratio = figure.ratios.get(name)
        yield "-" if ratio is None else digits(ratio)


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
        "function | shape | JAX ms | kit ms | NumPy ms | x JAX | x newest JAX "
        "| x NumPy",
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
    # Linux writes "always [madvise] never".
    huge = re.sub(r".*\[(\w+)\].*", r"\1", e["huge pages"])
    return (
        f"{e['cores']} cores ({e['cpu']}, {', '.join(e['isa'])}), jax "
        f"{e['jax']}, huge pages on {huge}"
    )


def _slower(figures: Sequence[Figure]) -> str:
    below = [f for f in figures if f.ratios["xla"] < 1]
    names = ", ".join(f"`{f.name}` {digits(f.ratios['xla'])}" for f in below)
    text = (
        f"XLA's own code is faster in {len(below)} of the {len(figures)} "
        f"cells: {names or 'none'}."
    )
    return f"\n{textwrap.fill(text, 80, break_on_hyphens=False)}\n"


def page(
    environment: dict[str, Any],
    figures: Sequence[Figure],
    newest: dict[str, Any],
) -> str:
    """The text of docs/measured.md."""
    ratios = newest.get("x", {})
    left = [
        f._replace(ratios=f.ratios | {NEWEST: ratios[f.name]})
        if f.name in ratios
        else f
        for f in figures
        if not f.name.startswith("sweep/")
    ]
    said = f' "Newest JAX" is {newest["jax"]}.' if newest else ""
    text = _INTRODUCTION.format(machine=_machine(environment), newest=said)
    text += _slower(left)
    for table in TABLES:
        taken = [figure for figure in left if table.takes(figure)]
        left = [figure for figure in left if not table.takes(figure)]
        if taken:
            count = table.heading.count("|") + 1
            lines = [_row([table.heading]), f"|{'---|' * count}"]
            lines += [_row([table.label(f), *table.rest(f)]) for f in taken]
            text += f"\n## {table.title}\n\n" + "\n".join(lines) + "\n"
    return text


def readme(text: str, figures: Sequence[Figure]) -> str:
    """The text of README.md with the measured ratios in it."""
    found = {figure.name: figure for figure in figures}
    for before, after, name in _SAID:
        ratio = digits(found[name].ratios["xla"])
        pattern = f"(?<={re.escape(before)})[0-9.]+(?={re.escape(after)})"
        text, count = re.subn(pattern, ratio, text)
        assert count == 1, f"README.md: {count} times {before!r}...{after!r}"
    return text


def written(root: pathlib.Path) -> dict[str, str]:
    """What the files below `root` ought to contain, by path."""
    text = (root / DATA).read_text()
    environment, figures = read(text)
    return {
        PAGE: page(environment, figures, newest(text)),
        BARS: bars(figures),
        README: readme((root / README).read_text(), figures),
    }


def write(root: pathlib.Path) -> None:
    """Writes the page, the picture and the README below `root`."""
    for path, text in written(root).items():
        (root / path).write_text(text)


if __name__ == "__main__":
    write(pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", ".")))
    sys.exit(0)
