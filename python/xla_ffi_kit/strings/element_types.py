"""The element types of inline operations: HLO's, NumPy's and C++'s names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import jax.numpy as jnp
import numpy as np

from xla_ffi_kit.op.spec import AttributeType
from xla_ffi_kit.strings.errors import BuildError

# HLO's name -> C++ type, NumPy type, number in XLA_FFI_DataType.
_TYPES: dict[str, tuple[str, type[np.generic], int]] = {
    "pred": ("bool", np.bool_, 1),
    "s8": ("int8_t", np.int8, 2),
    "s16": ("int16_t", np.int16, 3),
    "s32": ("int32_t", np.int32, 4),
    "s64": ("int64_t", np.int64, 5),
    "u8": ("uint8_t", np.uint8, 6),
    "u16": ("uint16_t", np.uint16, 7),
    "u32": ("uint32_t", np.uint32, 8),
    "u64": ("uint64_t", np.uint64, 9),
    "f16": ("kit::f16", np.float16, 10),
    "bf16": ("kit::bf16", jnp.bfloat16, 16),
    "f32": ("float", np.float32, 11),
    "f64": ("double", np.float64, 12),
}
# NumPy's names and JAX's ("i32") for the same.
_BY_NAME = {np.dtype(row[1]).name: row for row in _TYPES.values()}
_BY_NAME |= {name.replace("s", "i"): row for name, row in _TYPES.items()}
_BY_NAME |= _TYPES
_BY_NUMBER: dict[int, np.dtype] = {
    row[2]: np.dtype(row[1]) for row in _TYPES.values()
}


def template_arguments(
    name: str, dtypes: str | Sequence[str] | None
) -> list[str]:
    """The C++ types of each instance: "f32 bf16" -> ["float", "kit::bf16"].

    A name may be several, "f32,s32", for a template with several parameters.
    """
    if dtypes is None:
        return []
    instances = dtypes.split() if isinstance(dtypes, str) else list(dtypes)
    if not instances:
        raise BuildError(f"{name}: dtypes: expected at least one, got none")
    return [
        ", ".join(_cpp(name, part) for part in instance.split(","))
        for instance in instances
    ]


def _cpp(name: str, dtype: str) -> str:
    if dtype not in _BY_NAME:
        raise BuildError(
            f"{name}: dtypes: expected of {', '.join(_TYPES)}, got {dtype!r}"
        )
    return _BY_NAME[dtype][0]


def numpy_type(name: str, dtype: str) -> np.dtype:
    """The NumPy type of a name in `dtypes`."""
    _cpp(name, dtype)
    found: np.dtype = np.dtype(_BY_NAME[dtype][1])
    return found


def number_of(dtype: np.dtype) -> int:
    """The number in XLA_FFI_DataType of a NumPy type."""
    return _BY_NAME[dtype.name][2]


def from_number(number: int) -> np.dtype:
    """The NumPy type of an XLA_FFI_DataType."""
    return _BY_NUMBER[number]


def cpp_attribute(declared: AttributeType) -> str:
    """The C++ type of an attribute that is declared as for `FfiOp`."""
    if declared is str:
        return "std::string_view"
    if isinstance(declared, tuple):
        return f"kit::Array<{cpp_attribute(declared[0])}>"
    return _BY_NAME[np.dtype(cast(type[np.generic], declared)).name][0]
