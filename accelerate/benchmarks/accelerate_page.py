"""Where the figures of the package's benchmark stand."""

from __future__ import annotations

from bench.page import Publication

ACCELERATE = Publication(
    data="accelerate/benchmarks/measured.json",
    page="accelerate/docs/measured.md",
    introduction="""\
# Measured

`tools/bazel run -c opt //accelerate/benchmarks:compare -- --publish` writes
this page and [`measured.json`](../benchmarks/measured.json). How the figures
are measured: [performance.md](../../docs/performance.md). A cell's name is that
of the function, the shape of its operand, and how it is called.

A number without a unit is the other's time divided by the package's: 2 means
that the package takes half as long.
""",
    bars="accelerate/docs/bars.svg",
    in_words={
        "sort 1M floats": "accelerate/sort_f32/1000000/fresh",
        "sort 1M integers": "accelerate/sort_i32/1000000/fresh",
        "order 1M rows by two keys": "accelerate/lexsort/1000000/fresh",
        "median of 1M floats": "accelerate/median/1000000/fresh",
        "shuffle 1M floats": "accelerate/permutation/1000000/fresh",
        "top 64 of each of 1024 rows": "accelerate/top_k,_64/1024x1024/fresh",
        "running sum of 1M floats": "accelerate/cumsum_f32/1000000/fresh",
        "1M uniform random numbers": "accelerate/uniform_f32/1000000/fresh",
    },
)
