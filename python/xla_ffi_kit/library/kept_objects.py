"""Objects of Python that handlers find by name: xla_ffi/core/kept_object.h."""

from __future__ import annotations

import ctypes
import os
import sys
import threading

from xla_ffi_kit.library import rows

# Gives a library an object; libraries have it that include the header.
_KEEP = "XlaFfiKit_Keep"
# Name -> address and what must live as long as the process.
_objects: dict[str, tuple[int, object]] = {}
_libraries: list[ctypes.CDLL] = []  # that have _KEEP
_lock = threading.RLock()


def _renew_lock() -> None:
    # A fork while another thread keeps would leave the lock held forever.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def keep(name: str, object: object, *, owner: object = None) -> None:
    """Gives an object a name, by which handlers find it.

    A string or handler that includes "xla_ffi/core/kept_object.h" finds it by
    `kit::kept_object<T>(name)`, for which the name may be an attribute. Jitted
    and exported programs contain the name alone, and a process that runs one
    keeps an object under that name first.

    The object lives as long as the process, and the name stays its own: a
    handler may be using it. Handlers of several threads and devices use it at
    the same time, so they must not change it.

    Example:
      xla_ffi_kit.keep("cart", mujoco.MjModel.from_xml_path("cart.xml"))

    Args:
      name: the name, in this process.
      object: a capsule, a structure, array or pointer of ctypes, a pointer of
        cffi, an address, or an object that has its address as the attribute
        `address` or `_address`. What T is, nothing compares.
      owner: what lives as long as the process, too: the owner of the memory at
        an address.

    Raises:
      TypeError: the name is no string, or the object none of these.
      ValueError: the name is empty, the address is null, or the process keeps
        another object under this name.
    """
    if not isinstance(name, str):
        raise TypeError(f"keep: name: expected a string, got {name!r}")
    if not name or "\0" in name:
        raise ValueError(
            f"keep: name: expected some characters, none of them null, got "
            f"{name!r}"
        )
    address = _address_of(name, object)
    with _lock:
        if name in _objects:
            if _objects[name][0] == address:
                return
            raise ValueError(
                f"keep: name: expected one that keeps no other object in this "
                f"process, whose handlers may be using it, got {name!r}; give "
                "the new object another name"
            )
        _objects[name] = address, (object, owner)
        for library in _libraries:
            library[_KEEP](name.encode(), ctypes.c_void_p(address))


def give_to(library: ctypes.CDLL) -> None:
    """Gives a library that was loaded all objects, now and later."""
    try:
        function = library[_KEEP]
    except AttributeError:
        return
    with _lock:
        _libraries.append(library)
        for name, (address, _) in _objects.items():
            function(name.encode(), ctypes.c_void_p(address))


def _address_of(name: str, value: object) -> int:
    """The address of an object in whatever form Python has it."""
    address: object = None
    if type(value).__name__ == "PyCapsule":
        address = rows.address_of(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        address = value
    elif isinstance(value, ctypes._Pointer | ctypes.c_void_p):
        address = ctypes.cast(value, ctypes.c_void_p).value or 0
    elif isinstance(value, ctypes.Structure | ctypes.Union | ctypes.Array):
        address = ctypes.addressof(value)
    elif type(value).__module__ == "_cffi_backend":
        backend = sys.modules["_cffi_backend"]
        if backend.typeof(value).kind in ("pointer", "array"):
            as_number = backend.new_primitive_type("intptr_t")
            address = int(backend.cast(as_number, value))
    else:
        own = getattr(value, "_address", None)
        address = getattr(value, "address", own)
    if not isinstance(address, int):
        raise TypeError(
            f"keep: object {name!r}: expected a capsule, a structure, array or "
            "pointer of ctypes, a pointer of cffi, an address, or an object "
            f"with the attribute address or _address, got {value!r}"
        )
    if not 0 < address < 2**64:
        raise ValueError(
            f"keep: object {name!r}: expected an address, got {address}"
        )
    return address
