"""Where the figures of the kit's benchmark stand."""

from __future__ import annotations

from bench.page import Publication

KIT = Publication(
    data="benchmarks/measured.json",
    page="docs/measured.md",
    plot="docs/performance.png",
    introduction="""\
# Measured

`tools/bazel run -c opt //benchmarks:compare -- --publish` writes this page and
[`measured.json`](../benchmarks/measured.json). How the figures are measured,
and what they mean: [performance.md](performance.md). The cells are those of
[`cells.py`](../benchmarks/cells.py): operation, direction, dtype, shape and
regime.

A number without a unit is the other's time divided by the kit's: 2 means that
the kit takes half as long. "Loop" is the FFI tutorial's loop, "copy" a copy of
the same bytes on the same threads.
""",
)
