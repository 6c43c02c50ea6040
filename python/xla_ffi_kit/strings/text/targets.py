"""The custom call targets of operations from strings.

A target is part of every exported program, so it is the same wherever the
operation is the same, whatever compiles it:

* A function of a module has a name that is its own: "my_package.ops.softplus".
* A function of a script or a notebook, or one inside another function, has not.
  Its target is its name and a hash of its source.

Where a process defines it anew from other sources, programs of both exist. The
later one then gets a name that nobody else has.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import threading
from collections.abc import Callable, Sequence

from xla_ffi_kit.compile import flags as compiler_flags
from xla_ffi_kit.library import handler_library, rows
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.library.rows import Handler
from xla_ffi_kit.strings.text.source import LANES, ROW_BY_ROW, Source

_MAIN = ("__main__", "__mp_main__")
# The variable of a library with tapes, and the address that it gets in all of
# them, which is that of the first one's tapes.
_TAPES = "XlaFfiKit_tapes"
_tapes: int | None = None
_lock = threading.Lock()
# Target -> its library, in this process.
_libraries: dict[str, RenamedLibrary] = {}


def _renew_lock() -> None:
    # A fork while another thread loads would leave the lock held forever.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)


class RenamedLibrary(HandlerLibrary):
    """A library of one handler, under a target of this process's choosing."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        version: str,
        how: str,
    ) -> None:
        super().__init__(path)
        self.target = target
        self.version = version
        self._how = how

    def report(self, target: str) -> str:
        """How a handler runs, in a few words."""
        return f"the string, compiled as {target}: {self.rows()}"

    def rows(self) -> str:
        """How it runs rows, of which the compiler knows the lanes."""
        try:
            first = ctypes.c_int.in_dll(self._library, LANES)
        except ValueError:
            return self._how
        counts = ctypes.pointer(first)  # of each instance, and 0
        numbers = (counts[i] for i in itertools.count())
        distinct = sorted({*itertools.takewhile(bool, numbers)})
        sizes = " or ".join(str(count) for count in distinct if count > 1)
        lanes = f"in lanes of {sizes} rows"
        if 1 in distinct:
            lanes += f", integers {ROW_BY_ROW},"
        return self._how.replace(ROW_BY_ROW, lanes)

    def share_tapes(self) -> None:
        """Gives its derivatives the memory that all libraries share."""
        global _tapes
        try:
            variable = ctypes.c_void_p.in_dll(self._library, _TAPES)
        except ValueError:
            return  # it has no tape
        if _tapes is None:
            _tapes = variable.value
        variable.value = _tapes

    @functools.cached_property
    def _library(self) -> ctypes.CDLL:
        # Its path has the hash of its content: what is loaded is the same.
        return handler_library.loaded(self.path) or super()._library

    @functools.cached_property
    def handlers(self) -> dict[tuple[str, str], Handler]:
        """The handler by its target and platform."""
        (row,) = rows.handlers_in(self._table)
        handler = dataclasses.replace(row, name=self.target)
        return {(self.target, handler.platform): handler}


def library(
    reference: Callable[..., object],
    source: Source,
    flags: Sequence[str],
    version: str,
    path: str | os.PathLike[str],
) -> RenamedLibrary:
    """The library of an operation, loaded, with its target.

    Args:
      reference: the function that the author decorated.
      source: what was compiled.
      flags: the author's flags.
      version: tells the library from those of other sources, flags, compilers.
      path: the library.
    """
    hashed = _with_hash(source, flags)
    with _lock:
        for target in (_import_path(reference) or hashed, hashed):
            older = _libraries.get(target)
            if older is None or older.version == version:
                break
        else:
            target = f"{source.name}.{version}"
        if target not in _libraries:
            new = RenamedLibrary(path, target, version, source.how)
            new.handlers  # noqa: B018  loaded now, while the file is there
            new.share_tapes()
            _libraries[target] = new
        return _libraries[target]


def _import_path(reference: Callable[..., object]) -> str | None:
    """Module and name of a function that an import gives; else None."""
    module = getattr(reference, "__module__", None)
    name = getattr(reference, "__qualname__", "<none>")
    if module is None or module in _MAIN or "<" in name:
        return None
    return f"{module}.{name}"


def _with_hash(source: Source, flags: Sequence[str]) -> str:
    text = json.dumps(
        [source.text(with_place=False), compiler_flags.macros(flags)]
    )
    return f"{source.name}.{hashlib.sha256(text.encode()).hexdigest()[:12]}"
