"""Sets of dtypes, by name."""

from __future__ import annotations

from collections.abc import Container

HALF = ("float16", "bfloat16")
WIDE = ("float32", "float64")
FLOATS = (*HALF, *WIDE)
COMPLEX = ("complex64", "complex128")
INTEGERS = (
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)
# The dtypes that sort and the hash table take.
REAL = ("bool", *INTEGERS, *FLOATS)
# XLA moves bf16 through f32, which changes its NaNs on some releases and, with
# their own instructions for bf16, on some processors.
KEPT = tuple(dtype for dtype in REAL if dtype != "bfloat16")


def unless_in(known: Container[str], dtype: object) -> str | None:
    """Returns why a rule is not used, unless its kernel has the dtype."""
    return None if str(dtype) in known else f"the kernel has no {dtype}"
