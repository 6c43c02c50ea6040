"""Reads names of dtypes, for all of the kit, and defines sets of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

DType: TypeAlias = str | type | np.dtype[np.generic]

_WIDE = ("int64", "uint64", "float64", "complex128")
# Messages list dtypes in this order.
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
SIGNED = ("int8", "int16", "int32", "int64")

# HLO's name of a dtype -> NumPy's.
SHORT_NAMES = {
    "pred": "bool",
    "s8": "int8",
    "s16": "int16",
    "s32": "int32",
    "s64": "int64",
    "u8": "uint8",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "c64": "complex64",
    "c128": "complex128",
}
# JAX prints "i32" where HLO has "s32".
_NAMES = SHORT_NAMES | {name.replace("int", "i"): name for name in SIGNED}


_EXPECTED = (
    f"one of {', '.join(SHORT_NAMES)}, or a type, or NumPy's name of one such "
    "as 'float32'"
)


def parse(
    where: str, dtype: object, expected: str = _EXPECTED
) -> np.dtype[np.generic]:
    """Returns the dtype that an author names.

    Numbers in short names count bits: "i8" is int8, which NumPy reads as int64.
    NumPy's other codes ("f8", "d") and Python's ambiguous names ("float") are
    refused.

    Args:
      where: the operation and argument, for the error: "scale: dtypes".
      dtype: a short name, NumPy's whole name, or a type of NumPy or JAX.
      expected: the words of the error for what is expected.

    Raises:
      TypeError: it is not a dtype, or JAX has no arrays of this dtype.
    """
    if isinstance(dtype, str):
        parsed = _by_name(_NAMES.get(dtype, dtype))
    elif isinstance(dtype, type | np.dtype):
        parsed = _by_name(_numpy_name(dtype))
    else:
        parsed = None
    if parsed is None:
        numpys = _numpy_name(dtype) if isinstance(dtype, str) else ""
        hint = f", which is {numpys} to NumPy" if _by_name(numpys) else ""
        raise TypeError(f"{where}: expected {expected}, got {dtype!r}{hint}")
    return parsed


def parse_each(where: str, entry: object) -> tuple[np.dtype[np.generic], ...]:
    """Parses one dtype or several: "f32,s32", or a sequence of them."""
    if isinstance(entry, str):
        entry = entry.split(",")
    if isinstance(entry, Sequence):
        return tuple(parse(where, dtype) for dtype in entry)
    return (parse(where, entry),)


def remedy(dtypes: Sequence[str]) -> str:
    """What an error adds if JAX has no arrays of these dtypes now, or ""."""
    has_all: bool = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    if has_all or not dtypes or not set(dtypes) <= set(_WIDE):
        return ""
    names = " and no ".join(dtypes)
    return f"; JAX has no {names} unless jax_enable_x64 is set"


def _by_name(name: str) -> np.dtype[np.generic] | None:
    """The dtype of that whole name, if JAX has it."""
    scalar = getattr(jnp, name, None)
    if not isinstance(scalar, type(jnp.float32)):
        return None
    dtype = np.dtype(scalar)
    return dtype if dtype.name == name else None


def _numpy_name(dtype: str | type | np.dtype[np.generic]) -> str:
    try:
        return np.dtype(dtype).name
    except (TypeError, ValueError):
        return ""
