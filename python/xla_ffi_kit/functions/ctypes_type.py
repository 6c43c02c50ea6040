"""Reads the type that a function pointer of ctypes knows of itself."""

from __future__ import annotations

import contextlib
import ctypes
from typing import NoReturn

import numpy as np

from xla_ffi_kit.functions.declaration import (
    ANY_POINTER,
    CHAR,
    NUMBERS,
    Declaration,
    Parameter,
    Type,
)

_READABLE = (
    "a number, POINTER of a number, an ndpointer or c_void_p, which matches "
    "any pointer"
)


def read(where: str, function: ctypes._FuncPointer) -> Declaration | None:
    """The type in `restype` and `argtypes`, None if neither says anything.

    Without `argtypes` nothing is known of the parameters, and an int that is
    returned is only what ctypes assumes of every function. ctypes knows no
    const.

    Args:
      where: who asks, for errors.
      function: a function of a library, or one of a prototype.

    Raises:
      ValueError: it is a type that no signature can be compared with.
    """
    types = function.argtypes
    if types is None:
        types = getattr(type(function), "_argtypes_", None)
    returned = function.restype
    if types is None and returned is ctypes.c_int:
        return None
    returns = None if returned is None else _type(where, "restype", returned)
    parameters = tuple(
        Parameter(_type(where, f"argtypes[{i}]", one))
        for i, one in enumerate(types or ())
    )
    return Declaration(returns, parameters, is_open=types is None)


def _type(where: str, what: str, one: object) -> Type:
    if not isinstance(one, type):
        _refuse(where, what, one)
    if issubclass(one, ctypes._Pointer | ctypes.Array):
        # In C, a parameter that is an array is a pointer.
        return Type(_number(where, what, one, one._type_), is_pointer=True)
    if issubclass(one, ctypes.c_char_p):
        return Type(CHAR, is_pointer=True)
    if issubclass(one, ctypes.c_void_p):
        # An ndpointer is a c_void_p too, and may know the type of elements.
        dtype = getattr(one, "_dtype_", None)
        if dtype is None:
            return ANY_POINTER
        return Type(_number(where, what, one, dtype), is_pointer=True)
    return Type(_number(where, what, one, one))


def _number(
    where: str, what: str, whole: object, number: object
) -> np.dtype[np.generic]:
    """The dtype of a number of ctypes or NumPy, in the machine's byte order."""
    dtype = number
    if isinstance(number, type) and issubclass(number, ctypes._SimpleCData):
        with contextlib.suppress(TypeError):  # of a wchar_t
            dtype = np.dtype(number)
    if (
        not isinstance(dtype, np.dtype)
        or dtype.name not in NUMBERS
        or not dtype.isnative
    ):
        _refuse(where, what, whole)
    return dtype


def _refuse(where: str, what: str, got: object) -> NoReturn:
    raise ValueError(
        f"{where}: function: {what}: expected {_READABLE}, to compare with the "
        f"signature, got {got!r}; set it to what the C function takes"
    )
