"""Libraries of handlers that call a function of the process.

Each has one handler, and variables for the addresses of what it calls, which
stand in no program: a process that runs an exported program makes the operation
first, and so loads the library and gives it the addresses.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Sequence

from xla_ffi_kit.errors import HandlerLibraryError, NoCompilerError
from xla_ffi_kit.functions.pointer import Pointer
from xla_ffi_kit.functions.source import FUNCTIONS, LOCK
from xla_ffi_kit.library import registration
from xla_ffi_kit.strings import operation
from xla_ffi_kit.strings.text.source import Source
from xla_ffi_kit.strings.text.targets import RenamedLibrary

# The lock of all functions that are not thread-safe.
_mutex: int | None = None
_lock = threading.RLock()
# By target, in this process.
_libraries: dict[str, FunctionLibrary] = {}


def _renew_lock() -> None:
    # A fork while another thread loads would leave the lock held forever.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


class FunctionLibrary(RenamedLibrary):
    """The library of one handler, and the functions that it calls.

    Attributes:
      pointers: the functions, which live as long as the process.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        version: str,
        told: str,
        pointers: Sequence[Pointer],
    ) -> None:
        super().__init__(path, target, version, told)
        self.pointers = pointers
        self._set_variables()

    def report(self, target: str) -> str:
        """The function that a handler calls."""
        return self._how

    def is_same(self, version: str, pointers: Sequence[Pointer]) -> bool:
        """Whether it calls these functions, perhaps compiled again."""
        return version == self.version and all(
            a.identity == b.identity if a.identity else a.address == b.address
            for a, b in zip(self.pointers, pointers, strict=True)
        )

    def _set_variables(self) -> None:
        global _mutex
        addresses = ctypes.c_void_p * len(self.pointers)
        addresses.in_dll(self._library, FUNCTIONS)[:] = [
            pointer.address for pointer in self.pointers
        ]
        try:
            own = ctypes.c_void_p.in_dll(self._library, LOCK)
        except ValueError:
            return  # its function is thread-safe
        if _mutex is None:
            _mutex = own.value
        own.value = _mutex


def known(target: str) -> FunctionLibrary | None:
    """The library that this process has for a target."""
    return _libraries.get(target)


def load(
    source: Source,
    target: str,
    pointers: Sequence[Pointer],
    *,
    told: str,
) -> FunctionLibrary:
    """The library of a handler, compiled or from the cache, and registered.

    Args:
      source: what is compiled.
      target: the custom call target of the handler.
      pointers: the functions that it calls.
      told: the function, in a few words.

    Raises:
      ValueError: the process has another function with this target.
      BuildError: it does not compile, or there is no compiler.
    """
    try:
        version, path = operation.build(source, ())
    except NoCompilerError as error:
        raise NoCompilerError(f"{source.name}: {error}") from None
    with _lock:
        library = _libraries.get(target)
        if library is None:
            try:
                library = FunctionLibrary(path, target, version, told, pointers)
            except HandlerLibraryError:
                if path.exists():
                    raise
                # Another process has cleared the cache.
                return load(source, target, pointers, told=told)
            _libraries[target] = library
    if not library.is_same(version, pointers):
        raise ValueError(
            f"{source.name}: name: expected one of its own, got that of "
            f"another function of this process, or of the same with another "
            f"signature: {source.name!r}; give it another one, name=..."
        )
    # An exported program runs where the operation is defined.
    registration.register_early(library)
    return library
