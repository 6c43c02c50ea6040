"""accelerate/docs/measured.md, README's figures and bars, from measured.json.

    tools/bazel run //accelerate/benchmarks:measured_page

`//accelerate/benchmarks:compare -- --publish` measures, and then writes them.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterable

import measured_page
from bars import bars
from figures import Figure, digits, three
from measured_page import NEWEST, Publication, Table

_INTRODUCTION = """\
# Measured

Written by `tools/bazel run //accelerate/benchmarks:measured_page` from
[`measured.json`](../benchmarks/measured.json), the figures of
`tools/bazel run -c opt //accelerate/benchmarks:compare -- --publish`. How they
are measured: [performance.md](../../docs/performance.md).

{machine}.

A number without a unit is the other's time divided by the package's: 2 means
that it takes half as long.{newest}
"""


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


_TABLE = Table(
    "JAX's functions",
    lambda f: f.parts[0] == "accelerate",
    "function | shape | JAX ms | kit ms | NumPy ms | x JAX | x newest JAX "
    "| x NumPy",
    _function,
    _beside_jax,
)

ACCELERATE = Publication(
    data="accelerate/benchmarks/measured.json",
    page="accelerate/docs/measured.md",
    introduction=_INTRODUCTION,
    tables=(_TABLE,),
    readme="accelerate/README.md",
    said=(
        ("integers ", " times as fast", "accelerate/sort_i32/1000000/fresh"),
        ("lexsort ", " times", "accelerate/lexsort/1000000/fresh"),
    ),
    drawn={"accelerate/docs/bars.svg": bars},
)

if __name__ == "__main__":
    root = pathlib.Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    measured_page.write(ACCELERATE, root)
    sys.exit(0)
