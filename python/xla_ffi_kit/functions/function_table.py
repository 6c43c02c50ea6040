"""Makes C functions known to the handler `xla_ffi_kit.call`."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_void_p

import numpy as np

from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.functions.layout import Kind, Layout
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.library.handler_library import KIT_LIBRARIES, HandlerLibrary
from xla_ffi_kit.op.spec import DeviceKernel
from xla_ffi_kit.strings.text import element_types

TARGET = "xla_ffi_kit.call"
LIBRARY = KIT_LIBRARIES[0]
_MOST_AXES = 4

_known: dict[str, Pointer] = {}  # by name, with what functions live in


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
        ("failure", c_char_p),
    ]


_Define = ctypes.CFUNCTYPE(c_char_p, POINTER(_Function))


@dataclasses.dataclass(frozen=True, kw_only=True)
class FunctionKernel(DeviceKernel):
    """A C function that the handler `xla_ffi_kit.call` calls.

    Attributes:
      name: the name of the operation.
      function: what the handler knows the function by.
      library: the library of the handler.
      target: the custom call target of the handler.
    """

    name: str
    function: str
    library: HandlerLibrary | None = LIBRARY
    target: str = TARGET

    def by(self, target: str) -> FunctionKernel:
        """Returns the same for another handler, which is registered."""
        return dataclasses.replace(self, target=target, library=None)


def identity_of(name: str) -> str | None:
    """The hash of what is known by a name, None if nothing is."""
    return _known[name].identity if name in _known else None


def define(
    where: str,
    name: str,
    pointer: Pointer,
    parameters: Sequence[_Parameter],
    *,
    signature: str,
    returns: np.dtype[np.generic] | None = None,
    is_status: bool = False,
    thread_safe: bool = True,
    failure: str | None = None,
) -> None:
    """Makes a function known for the rest of the process, and keeps its owner.

    Args:
      where: the name of the operation, for errors.
      name: what programs call the function by.
      pointer: the function.
      parameters: its parameters.
      signature: its type, for errors.
      returns: what it returns, None for void.
      is_status: whether the integer that it returns is an error's number.
      thread_safe: whether several threads may call it at the same time.
      failure: of a function of arrays, what it says if it returns another
        number than 0.

    Raises:
      ValueError: another function has this name.
      HandlerLibraryError: the kit's library cannot be used.
    """
    known = identity_of(name)
    if known and known == pointer.identity:
        return  # the same, compiled again
    address = LIBRARY.define_function
    if not address:
        raise HandlerLibraryError(
            f"{where}: handler library {LIBRARY.path} has no {TARGET}, which "
            "calls C functions; reinstall the package"
        )
    problem = _Define(address)(
        _Function(
            struct_size=ctypes.sizeof(_Function),
            name=name.encode(),
            signature=signature.encode(),
            address=pointer.address,
            returns=element_types.number_of(returns)
            if returns is not None
            else 0,
            is_status=is_status,
            is_thread_safe=thread_safe,
            num_parameters=len(parameters),
            parameters=(_Parameter * len(parameters))(*parameters),
            failure=None if failure is None else failure.encode(),
        )
    )
    if problem is not None:
        remedy = f"{name!r}; give it another one, name=..."
        raise ValueError(f"{where}: {problem.decode()}: {remedy}")
    _known[name] = pointer


def parameters_of(layout: Layout) -> list[_Parameter]:
    """The structs of a C function's parameters."""
    numbers: dict[str, int] = {}  # of sizes, in their order
    return [
        parameter(
            a.kind,
            a.dtype,
            len(a.letters),
            [
                -int(x)
                if x.isdecimal()
                else numbers.setdefault(x, len(numbers))
                for x in a.letters
            ],
        )
        for a in layout.arguments
    ]


def parameter(
    kind: Kind, dtype: np.dtype, axes: int, sizes: Sequence[int] = ()
) -> _Parameter:
    """The struct of a parameter; that of a function of arrays has no sizes."""
    return _Parameter(
        kind=kind,
        dtype=element_types.number_of(dtype),
        num_sizes=axes,
        sizes=(c_int32 * _MOST_AXES)(*sizes),
    )
