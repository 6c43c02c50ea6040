"""JAX's own functions on the CPU with and without the package, and NumPy's.

The targets and their options are those of the kit's benchmark:
benchmarks/bench/command.py.
"""

from __future__ import annotations

import sys

from accelerate_page import ACCELERATE
from bench import command
from jax_cells import jax_cells
from targets import TARGETS

SUITE = command.Suite(
    jax_cells,
    (
        "accelerate/sort_f32/1000000/fresh",
        "accelerate/top_k,_64/1024x1024/fresh",
    ),
    ACCELERATE,
    TARGETS,
    "xla_ffi_accelerate.",
)

if __name__ == "__main__":
    sys.exit(command.main(SUITE, __file__))
