"""The package's library beside another build of it, by another compiler.

tools/bazel run //accelerate/benchmarks:libraries -- OTHER.so --only sort
"""

from __future__ import annotations

import sys

import libraries
from compare_jax import SUITE

if __name__ == "__main__":
    sys.exit(libraries.main(suite=SUITE, own="xla_ffi_accelerate."))
