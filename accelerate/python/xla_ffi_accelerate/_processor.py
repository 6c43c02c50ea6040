"""The processor, and what XLA may use of it."""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def _description() -> str:
    """What Linux says of it; empty on others."""
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def has_avx512() -> bool:
    """Whether XLA uses AVX-512; a flag of the user's may limit it."""
    return " avx512f " in _description() and not _is_limited()


def has_avx2() -> bool:
    """Whether XLA uses AVX2 and FMA, and neither more nor less."""
    flags = _description()
    is_there = " avx2 " in flags and " fma " in flags
    return is_there and " avx512f " not in flags and not _is_limited()


def _is_limited() -> bool:
    return "xla_cpu_max_isa" in os.environ.get("XLA_FLAGS", "")
