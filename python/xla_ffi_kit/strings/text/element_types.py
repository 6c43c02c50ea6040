"""The element types of operations from strings: NumPy's, C++'s and XLA's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit._dtypes import DType
from xla_ffi_kit.errors import BuildError
from xla_ffi_kit.op.spec import AttributeType

# "f32 bf16", or what `FfiOp` takes.
DTypes: TypeAlias = str | Sequence[DType | Sequence[DType]]

# NumPy's name -> C++ type, number in XLA_FFI_DataType.
_TYPES = {
    "bool": ("bool", 1),
    "int8": ("int8_t", 2),
    "int16": ("int16_t", 3),
    "int32": ("int32_t", 4),
    "int64": ("int64_t", 5),
    "uint8": ("uint8_t", 6),
    "uint16": ("uint16_t", 7),
    "uint32": ("uint32_t", 8),
    "uint64": ("uint64_t", 9),
    "float16": ("kit::f16", 10),
    "bfloat16": ("kit::bf16", 16),
    "float32": ("float", 11),
    "float64": ("double", 12),
}
# Types that XLA does not take as an attribute, and as the elements of one.
_NO_SCALARS = ("float16", "bfloat16")
_NO_ARRAYS = (*_NO_SCALARS, "bool")


def instances(
    name: str, dtypes: DTypes
) -> list[tuple[np.dtype[np.generic], ...]]:
    """The dtypes of each instance: "f32,s32 bf16" has two instances."""
    where = f"{name}: dtypes"
    entries = dtypes.split() if isinstance(dtypes, str) else dtypes
    try:
        dtypes_of_each = [
            _dtypes.parse_each(where, entry)
            for entry in _check.sequence(where, entries)
        ]
    except TypeError as error:
        raise BuildError(str(error)) from None
    if not dtypes_of_each:
        raise BuildError(f"{where}: expected at least one, got none")
    for dtype in (dtype for entry in dtypes_of_each for dtype in entry):
        _check_type(where, dtype)
    return dtypes_of_each


def template_arguments(name: str, dtypes: DTypes | None) -> list[str]:
    """The C++ types of each instance: "f32 bf16" -> ["float", "kit::bf16"]."""
    if dtypes is None:
        return []
    return [
        ", ".join(_TYPES[dtype.name][0] for dtype in entry)
        for entry in instances(name, dtypes)
    ]


def names() -> tuple[str, ...]:
    """NumPy's names of all types that there are."""
    return tuple(_TYPES)


def cpp_type(dtype: np.dtype[np.generic]) -> str:
    """The C++ type of a NumPy type."""
    return _TYPES[dtype.name][0]


def number_of(dtype: np.dtype[np.generic]) -> int:
    """The number in XLA_FFI_DataType of a NumPy type."""
    return _TYPES[dtype.name][1]


def attribute(
    where: str, declared: AttributeType
) -> type[str] | np.dtype[np.generic] | tuple[np.dtype[np.generic]]:
    """The type of an attribute that is declared as for `FfiOp`."""
    if declared is str:
        return str
    is_array = isinstance(declared, tuple) and len(declared) == 1
    number: object = declared[0] if is_array else declared  # type: ignore
    try:
        dtype = _dtypes.parse(where, number)
    except TypeError as error:
        raise BuildError(str(error)) from None
    _check_type(where, dtype, _NO_ARRAYS if is_array else _NO_SCALARS)
    return (dtype,) if is_array else dtype


def cpp_attribute(where: str, declared: AttributeType) -> str:
    """The C++ type of an attribute that is declared as for `FfiOp`."""
    type_ = attribute(where, declared)
    if isinstance(type_, type):
        return "std::string_view"
    if isinstance(type_, tuple):
        return f"kit::Array<{cpp_type(type_[0])}>"
    return cpp_type(type_)


def _check_type(
    where: str, dtype: np.dtype[np.generic], without: Sequence[str] = ()
) -> None:
    """Refuses a dtype that the C++ side has no type for, or `without`."""
    allowed = _TYPES.keys() - without
    if dtype.name not in allowed:
        names = (k for k, v in _dtypes.SHORT_NAMES.items() if v in allowed)
        raise BuildError(
            f"{where}: expected one of {', '.join(names)}, got {dtype.name}"
        )
