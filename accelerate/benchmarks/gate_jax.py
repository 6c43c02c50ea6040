"""Fails when a headline figure falls below 0.8 of what it must be.

tools/bazel run -c opt //accelerate/benchmarks:gate
"""

from __future__ import annotations

import sys

import gate
from compare_jax import SUITE
from targets import TARGETS

if __name__ == "__main__":
    sys.exit(gate.main(suite=SUITE, targets=TARGETS))
