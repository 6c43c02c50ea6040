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

# NumPy's name -> C++ type.
_TYPES = {
    "bool": "bool",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "float16": "kit::f16",
    "bfloat16": "kit::bf16",
    "float32": "float",
    "float64": "double",
    "complex64": "std::complex<float>",
    "complex128": "std::complex<double>",
}
COMPLEX = ("complex64", "complex128")
# What XLA does not take as an attribute, and as the elements of one.
_NO_SCALARS = ("float16", "bfloat16", *COMPLEX)
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
        ", ".join(_TYPES[dtype.name] for dtype in entry)
        for entry in instances(name, dtypes)
    ]


def names() -> tuple[str, ...]:
    """NumPy's names of all types that CUDA has too: no complex numbers."""
    return tuple(name for name in _TYPES if name not in COMPLEX)


def cpp_type(dtype: np.dtype[np.generic]) -> str:
    """The C++ type of a NumPy type."""
    return _TYPES[dtype.name]


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
        return f"kit::Array<{_TYPES[type_[0].name]}>"
    return _TYPES[type_.name]


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
