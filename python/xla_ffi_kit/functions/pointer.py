"""Finds the address of a C function, in whatever form Python has it."""

from __future__ import annotations

import ctypes
import dataclasses
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import NoReturn, cast

from xla_ffi_kit.functions import ctypes_type, numba_identity
from xla_ffi_kit.functions import declaration as declarations
from xla_ffi_kit.functions.declaration import SKIP_DISPATCH, Declaration

_KINDS = (
    "an address, a function pointer of ctypes or cffi, a capsule, a cfunc of "
    "numba, or library= and symbol="
)
# What Cython calls the types of SciPy's BLAS and LAPACK (the modules' .pxd
# files), and complex numbers.
_SCIPY = "__pyx_t_5scipy_6linalg_(?:11cython_blas|13cython_lapack)"
_CYTHON_NAMES = {
    rf"\b{_SCIPY}_d\b": "double",
    rf"\b{_SCIPY}_s\b": "float",
    rf"\b{_SCIPY}_z\b": "double complex",
    rf"\b{_SCIPY}_c\b": "float complex",
    r"\b__pyx_t_(float|double)_complex\b": r"\1 complex",
}
# Libraries by path, with the inode and time of the file when it was first seen.
_loaded: dict[str, tuple[int, int]] = {}


@dataclasses.dataclass(frozen=True)
class Pointer:
    """A C function.

    Attributes:
      address: where it is.
      name: what it is called, "" if nothing tells.
      library: the file that contains it, "" if nothing tells.
      owner: what must live as long as the function is called.
      identity: a hash of what it computes, "" if nothing tells.
      told: its type, if the pointer has it: compared with the author's.
    """

    address: int
    name: str = ""
    library: str = ""
    owner: object = None
    identity: str = ""
    told: Declaration | None = None

    def report(self) -> str:
        """Which function it is, in a few words."""
        name = f"the C function {self.name}" if self.name else "a C function"
        return f"{name} of {self.library}" if self.library else name

    @property
    def skips_dispatch(self) -> bool:
        """Whether Cython's last parameter stands behind the author's."""
        last = self.told.parameters[-1:] if self.told else ()
        return any(p.name == SKIP_DISPATCH for p in last)


def of_library(where: str, library: object, symbol: object) -> Pointer:
    """The function `symbol` of a shared library.

    Args:
      where: who asks, for errors.
      library: its name or path, as the dynamic linker takes it, or a
        `ctypes.CDLL`.
      symbol: the function's name in it.

    Raises:
      TypeError: they are not that.
      ValueError: there is no such library or symbol.
    """
    if not isinstance(symbol, str):
        _refuse(where, "symbol", "the function's name in the library", symbol)
    if isinstance(library, str | os.PathLike):
        try:
            library = ctypes.CDLL(os.fspath(library))
        except OSError as error:
            raise ValueError(
                f"{where}: library: expected a shared library that the "
                f"dynamic linker finds, got {library!r}: {error}; pass its "
                "path, or what ctypes.util.find_library says"
            ) from None
    if not isinstance(library, ctypes.CDLL):
        _refuse(where, "library", "a name, a path or a ctypes.CDLL", library)
    try:
        function = library[symbol]
    except AttributeError:
        raise ValueError(
            f"{where}: symbol: expected a function that {library._name} "
            f'exports, got {symbol!r}; in C++ declare it extern "C"'
        ) from None
    address = _address_of(function)
    path, _, is_data = _found_at(address)
    if is_data:
        raise ValueError(
            f"{where}: symbol: expected a function that {library._name} "
            f"exports, got {symbol!r}, which is a variable"
        )
    _warn_if_replaced(where, path)
    return Pointer(address, symbol, os.path.basename(path), library)


def _warn_if_replaced(where: str, path: str) -> None:
    """Warns if a file is no longer the one whose code this process runs.

    The dynamic linker loads a path once, and then gives the same code again.
    """
    try:
        found = os.stat(path)
    except OSError:
        return
    now = (found.st_ino, found.st_mtime_ns)
    if _loaded.setdefault(path, now) != now:
        warnings.warn(
            f"{where}: library: {path} has changed since this process loaded "
            "it, and the old code runs; restart the process, or give the new "
            "library another file name",
            stacklevel=5,  # who calls c_function
        )


def of(where: str, function: object) -> Pointer:
    """A function that Python has already, in one of the forms it may have.

    Raises:
      TypeError: it is none of these.
      ValueError: it is null, or the type that it says cannot be read.
    """
    if isinstance(function, int) and not isinstance(function, bool):
        found = Pointer(function)
    elif isinstance(function, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        found = _of_ctypes(where, cast("ctypes._FuncPointer", function))
    elif type(function).__name__ == "PyCapsule":
        found = _of_capsule(where, function)
    elif type(function).__module__ == "_cffi_backend":
        found = _of_cffi(where, function)
    elif isinstance(getattr(function, "address", None), int):
        found = _of_numba(where, function)
    else:
        _refuse(where, "function", _KINDS, function)
    if not 0 < found.address < 2**64:
        raise ValueError(
            f"{where}: function: expected an address, got {found.address}"
        )
    name, file = _place_of(found.address)
    return dataclasses.replace(found, name=found.name or name, library=file)


def _refuse(where: str, what: str, expected: str, got: object) -> NoReturn:
    raise TypeError(f"{where}: {what}: expected {expected}, got {got!r}")


def _address_of(function: ctypes._FuncPointer) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _of_ctypes(where: str, function: ctypes._FuncPointer) -> Pointer:
    told = ctypes_type.read(where, function)
    name = getattr(function, "__name__", "")
    return Pointer(_address_of(function), name, owner=function, told=told)


def _of_capsule(where: str, capsule: object) -> Pointer:
    """Cython's has the function's type as its name, f2py's has no name."""
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
        ("PyCapsule_GetName", api)
    )
    get_pointer = ctypes.PYFUNCTYPE(
        ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
    )(("PyCapsule_GetPointer", api))
    name = get_name(capsule)
    text = (name or b"").decode(errors="replace")
    for theirs, ours in _CYTHON_NAMES.items():
        text = re.sub(theirs, ours, text)
    told = None
    if "(" in text:
        what = f"{where}: function: the capsule's name"
        told = declarations.parse(what, text)
    address = get_pointer(capsule, name) or 0
    return Pointer(address, owner=capsule, told=told)


def _of_cffi(where: str, pointer: object) -> Pointer:
    backend = sys.modules["_cffi_backend"]
    kind = backend.typeof(pointer)
    if kind.kind != "function" and "(*)" not in kind.cname:
        _refuse(where, "function", "a pointer to a function of cffi", pointer)
    address = int(backend.cast(backend.new_primitive_type("intptr_t"), pointer))
    text = kind.cname.replace("(*)", "")
    told = declarations.parse(f"{where}: function: its type in cffi", text)
    return Pointer(address, owner=pointer, told=told)


def _of_numba(where: str, cfunc: object) -> Pointer:
    """A `numba.cfunc`, or another object with the address of a function."""
    made = getattr(cfunc, "ctypes", None)
    told = None
    if isinstance(made, ctypes._CFuncPtr):  # type: ignore[attr-defined]
        told = ctypes_type.read(where, cast("ctypes._FuncPointer", made))
    return Pointer(
        address=getattr(cfunc, "address", 0),
        name=getattr(cfunc, "__name__", ""),
        owner=cfunc,
        identity=numba_identity.of_cfunc(cfunc),
        told=told,
    )


class _Found(ctypes.Structure):
    """`Dl_info` of dlfcn.h."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    ]


class _Symbol(ctypes.Structure):
    """The beginning of `Elf64_Sym` of elf.h."""

    _fields_ = [("name", ctypes.c_uint32), ("info", ctypes.c_uint8)]


_RTLD_DL_SYMENT = 1  # of dlfcn.h
_DATA = (1, 5, 6)  # STT_OBJECT, STT_COMMON, STT_TLS


def _found_at(address: int) -> tuple[str, _Found, bool]:
    """What the dynamic linker knows of an address: a path, and more.

    And whether a variable is there. The variables of threads are in no file. A
    function that its library chooses when it is loaded (an IFUNC) is the one
    that was chosen, often without a symbol of its own.
    """
    found = _Found()
    entry = ctypes.POINTER(_Symbol)()
    dladdr1: Callable[..., int] = ctypes.CDLL(None).dladdr1
    dladdr1(
        ctypes.c_void_p(address),
        ctypes.byref(found),
        ctypes.byref(entry),
        _RTLD_DL_SYMENT,
    )
    path = (found.file or b"").decode(errors="replace")
    is_data = not path
    if entry and found.address == address:
        is_data = entry.contents.info & 15 in _DATA
    return path, found, is_data


def _place_of(address: int) -> tuple[str, str]:
    """What the dynamic linker calls a function, and the file that it is in.

    A function without a name is called by its place in the file, which is the
    same in every process that has the same file.
    """
    path, found, _ = _found_at(address)
    if not path:
        return "", ""
    file = os.path.basename(path)
    if found.symbol and found.address == address:
        return str(found.symbol.decode()), file
    place = address - (found.base or 0)
    return f"{file.partition('.')[0]}+{place:#x}", file
