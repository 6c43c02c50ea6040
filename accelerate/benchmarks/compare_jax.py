"""JAX's own functions on the CPU with and without the package, and NumPy's.

    tools/bazel run -c opt //accelerate/benchmarks:compare
    tools/bazel run -c opt //accelerate/benchmarks:compare -- --only sort top_k
        --json FILE --plot FILE.png
    tools/bazel run -c opt //accelerate/benchmarks:compare -- --publish
    tools/bazel run -c opt //accelerate/benchmarks:compare --
        --jax 0.12.0.1 --publish

The command line is that of the kit's benchmark.
"""

from __future__ import annotations

import sys

import compare
from accelerate_page import ACCELERATE
from jax_cells import jax_cells
from suite import Suite

SUITE = Suite(
    jax_cells,
    (
        "accelerate/sort_f32/1000000/fresh",
        "accelerate/top_k,_64/1024x1024/fresh",
    ),
    ACCELERATE,
    "accelerate/docs/performance.png",
)

if __name__ == "__main__":
    sys.exit(compare.main(suite=SUITE, program=__file__))
