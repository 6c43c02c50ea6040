"""Makes C functions known to the handler `xla_ffi_kit.call`."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_void_p

from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.functions.layout import Argument, Kind, Layout
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES
from xla_ffi_kit.strings import element_types

TARGET = "xla_ffi_kit.call"
LIBRARY = KIT_LIBRARIES[0]
_MOST_AXES = 4

_kept: dict[str, object] = {}  # by name: what functions live in


class _Parameter(ctypes.Structure):
    """`XlaFfiKit_Parameter` of xla_ffi/call/function.h."""

    _fields_ = [
        ("kind", c_int32),
        ("dtype", c_int32),
        ("num_sizes", c_int32),
        ("sizes", c_int32 * _MOST_AXES),
    ]


class _Function(ctypes.Structure):
    """`XlaFfiKit_Function`."""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("signature", c_char_p),
        ("address", c_void_p),
        ("returns", c_int32),
        ("is_status", c_int32),
        ("is_thread_safe", c_int32),
        ("num_parameters", c_size_t),
        ("parameters", POINTER(_Parameter)),
    ]


_Define = ctypes.CFUNCTYPE(c_char_p, POINTER(_Function))


def define(
    where: str, name: str, pointer: Pointer, layout: Layout, thread_safe: bool
) -> None:
    """Makes a function known for the rest of the process, and keeps its owner.

    Args:
      where: the name of the operation, for errors.
      name: what programs call the function by.
      pointer: the function.
      layout: its parameters.
      thread_safe: whether several threads may call it at the same time.

    Raises:
      ValueError: another function has this name.
      HandlerLibraryError: the kit's library cannot be used.
    """
    if pointer.identity and name in _kept:
        return  # the same, compiled again
    address = LIBRARY.define_function
    if not address:
        raise HandlerLibraryError(
            f"{where}: handler library {LIBRARY.path} has no {TARGET}, which "
            "calls C functions; reinstall the package"
        )
    numbers: dict[str, int] = {}
    parameters = [_parameter(a, numbers) for a in layout.arguments]
    returns = layout.declaration.returns
    problem = _Define(address)(
        _Function(
            struct_size=ctypes.sizeof(_Function),
            name=name.encode(),
            signature=f"{layout.declaration} {layout.axes}".encode(),
            address=pointer.address,
            returns=element_types.number_of(returns.dtype) if returns else 0,
            is_status=layout.is_status,
            is_thread_safe=thread_safe,
            num_parameters=len(parameters),
            parameters=(_Parameter * len(parameters))(*parameters),
        )
    )
    if problem is not None:
        remedy = f"{name!r}; give it another one, name=..."
        raise ValueError(f"{where}: {problem.decode()}: {remedy}")
    _kept[name] = pointer.owner


def _parameter(argument: Argument, numbers: dict[str, int]) -> _Parameter:
    """The struct of a parameter; numbers the sizes in their order."""
    letters = argument.letters
    sizes = [
        -int(a) if a.isdecimal() else numbers.setdefault(a, len(numbers))
        for a in letters
    ]
    return _Parameter(
        kind=Kind(argument.kind),
        dtype=element_types.number_of(argument.dtype),
        num_sizes=len(letters),
        sizes=(c_int32 * _MOST_AXES)(*sizes),
    )
