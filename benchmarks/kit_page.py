"""docs/measured.md and README's figures, from benchmarks/measured.json.

    tools/bazel run //benchmarks:measured_page

`//benchmarks:compare -- --publish` measures, and then writes them.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable, Iterable

import measured_page
from figures import Figure, digits, duration
from measured_page import Publication, Table

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


def _shape(size: str) -> str:
    return f"({size.replace('x', ', ')})"


def _against(*names: str) -> Callable[[Figure], Iterable[str]]:
    def cells(figure: Figure) -> Iterable[str]:
        yield duration(figure.microseconds["kit"])
        for name in names:
            ratio = figure.ratios.get(name)
            yield "-" if ratio is None else digits(ratio)

    return cells


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

KIT = Publication(
    data="benchmarks/measured.json",
    page="docs/measured.md",
    introduction=_INTRODUCTION,
    tables=TABLES,
    readme="README.md",
    said=(
        (
            "is ",
            " times as fast as XLA's",
            "rms_norm/fwd/bf16/1024x1024/fresh",
        ),
        ("derivative ", " times", "rms_norm/bwd/bf16/1024x1024/fresh"),
    ),
    drawn={},
)

if __name__ == "__main__":
    root = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    measured_page.write(KIT, root)
    sys.exit(0)
