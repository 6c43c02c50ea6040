"""Finds, loads and reads handler libraries.

A handler library is a shared library with a handler table
(`xla_ffi/core/handler_table.h`). It is Python-free; ctypes loads it, so one
build serves every Python.
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, Union

from xla_ffi_kit.library import c_api, elf
from xla_ffi_kit.library.signature import Signature, read

# XLA's name of a platform in the handler table -> JAX's name of it.
_PLATFORMS = {"Host": "cpu", "CUDA": "cuda", "ROCM": "rocm"}

STAGES = ("instantiate", "prepare", "initialize", "execute")


class HandlerLibraryError(RuntimeError):
    """A handler library cannot be used; the text says which, and why."""


@dataclasses.dataclass(frozen=True)
class Handler:
    """A custom call target of a library."""

    name: str  # e.g. "xla_ffi_kit.rms_norm"
    platform: str  # JAX's name of it: "cpu", "cuda"
    stages: dict[str, int]  # stage, "execute" among them -> function's address
    signature_at: int | None = None  # the address of its signature

    def metadata(self) -> c_api.Metadata:
        """The FFI version and traits that the handler was compiled with."""
        return c_api.read_metadata(self.stages["execute"])

    def signature(self) -> Signature | None:
        """The handler's signature; None if its library does not state it."""
        return read(self.signature_at) if self.signature_at else None


@dataclasses.dataclass(frozen=True)
class StateType:
    """A user-defined type that handlers of a library keep as state."""

    name: str
    platform: str
    type_id: int
    type_info: int


# A library or its path.
Library: TypeAlias = Union["HandlerLibrary", str, "os.PathLike[str]"]


class HandlerLibrary:
    """A handler library on disk, which is loaded when it is first used.

    The definition of an `FfiOp` uses a library for CPUs. It stays loaded,
    whatever happens to the file.

    Args:
      path: the shared library.
      platform: JAX's name of the platform of its handlers.
      optional: whether the file may be missing; operations then run their
        reference on that platform. If the file existed and disappears before it
        is loaded, that is an error nevertheless.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        platform: str = "cpu",
        *,
        optional: bool = False,
    ) -> None:
        if platform not in _PLATFORMS.values():
            raise ValueError(
                "HandlerLibrary: argument platform: expected "
                f"{', '.join(_PLATFORMS.values())}, got {platform!r}"
            )
        # The dynamic linker looks for a mere name elsewhere.
        self.path = os.path.abspath(path)
        self.platform = platform
        self.optional = optional
        self._was_seen = os.path.exists(self.path)

    def __repr__(self) -> str:
        return f"HandlerLibrary({self.path!r}, {self.platform!r})"

    @property
    def exists(self) -> bool:
        """Whether the file exists, existed once, or is loaded."""
        self._was_seen = (
            self._was_seen or self.path in _loaded or os.path.exists(self.path)
        )
        return self._was_seen

    @property
    def api_version(self) -> tuple[int, int]:
        """The version of the FFI headers with which the library was built."""
        return self._table.api_major, self._table.api_minor

    @functools.cached_property
    def handlers(self) -> dict[str, Handler]:
        """The handlers by custom call target."""
        found = handlers_in(self._table)
        return {h.name: h for h in found if h.platform == self.platform}

    @functools.cached_property
    def types(self) -> tuple[StateType, ...]:
        """The state types, to be registered before the handlers."""
        found = types_in(self._table)
        return tuple(t for t in found if t.platform == self.platform)

    @property
    def parallel_for(self) -> int | None:
        """The address of the library's parallel loop."""
        slot = _parallel_for(self._table)
        return slot[0] if slot else None

    def handler(self, target: str) -> Handler:
        """The handler of `target`; HandlerLibraryError if there is none."""
        found = self.handlers.get(target)
        if found is None:
            offered = ", ".join(sorted(self.handlers)) or "nothing"
            raise HandlerLibraryError(
                f"handler library {self.path} has no handler {target!r} for "
                f"{self.platform}; it offers: {offered}"
            )
        return found

    def signature(self, target: str) -> Signature | None:
        """Returns the signature of the handler of `target`.

        None if the handler does not state it: it is written with the plain FFI,
        or the library is older than signatures.
        """
        return self.handler(target).signature()

    def function(self, name: str) -> ctypes._FuncPointer:
        """A C function that the library exports."""
        found: ctypes._FuncPointer = getattr(self._library, name)
        return found

    @functools.cached_property
    def _library(self) -> ctypes.CDLL:
        return _open(self.path)

    @functools.cached_property
    def _table(self) -> c_api.HandlerTable:
        try:
            get_table = getattr(self._library, c_api.TABLE_SYMBOL)
        except AttributeError:
            raise HandlerLibraryError(
                f"{self.path} has no symbol {c_api.TABLE_SYMBOL}, so it is no "
                "handler library; build it with xla_ffi_library() of the Bazel "
                "rules or xla_ffi_kit.build_library(), or list its handlers in "
                'one of its files: #include "xla_ffi/core/define_table.h" and '
                'XLA_FFI_KIT_DEFINE_TABLE("my_ops", '
                'XLA_FFI_KIT_HANDLER("my.target", Symbol));'
            ) from None
        get_table.restype = ctypes.POINTER(c_api.HandlerTable)
        table: c_api.HandlerTable = get_table().contents
        if table.struct_size < c_api.HandlerTable.register_all.offset:
            raise HandlerLibraryError(
                f"the handler table of {self.path} has {table.struct_size} "
                f"bytes, expected at least "
                f"{c_api.HandlerTable.register_all.offset}; rebuild the library"
            )
        # A library that has no parallel loop is lent that of the kit.
        slot, kit = _parallel_for(table), KIT_LIBRARIES[0]
        if slot and not slot[0] and kit.path != self.path and kit.exists:
            slot[0] = kit.parallel_for
        return table


def _parallel_for(
    table: c_api.HandlerTable,
) -> ctypes._Pointer[ctypes.c_void_p] | None:
    """Finds where the library keeps the address of its parallel loop."""
    if table.struct_size < ctypes.sizeof(c_api.HandlerTable):
        return None
    return table.parallel_for or None


# Path -> what was loaded from it, and what file was there.
_loaded: dict[str, tuple[ctypes.CDLL, tuple[int, ...]]] = {}


def loaded(path: str) -> ctypes.CDLL | None:
    """Returns what this process loaded from a path, even if it is gone now."""
    found = _loaded.get(path)
    return found[0] if found else None


def _open(path: str) -> ctypes.CDLL:
    try:
        file = _file_at(path)
    except OSError:
        if path in _loaded:
            return _loaded[path][0]
        raise HandlerLibraryError(
            f"handler library {path} does not exist; build it, or reinstall "
            "the package it belongs to (in a checkout of xla_ffi_kit: build "
            "//python/xla_ffi_kit:cpu_library)"
        ) from None
    try:
        problem = elf.problem(path)
    except OSError as error:  # a folder, or a file of somebody else's
        problem = f"cannot be read: {error.strerror}"
    if problem:
        raise HandlerLibraryError(f"handler library {path} {problem}")
    if path in _loaded and _loaded[path][1] != file:
        raise HandlerLibraryError(
            f"handler library {path} has changed since this process loaded it, "
            "and a process cannot load it again; start a new process"
        )
    try:
        # RTLD_LOCAL (the default) keeps two libraries' symbols apart.
        library = ctypes.CDLL(path)
    except OSError as error:
        problem = elf.too_old_a_system(str(error))
        raise HandlerLibraryError(
            f"handler library {path} {problem or f'cannot be loaded: {error}'}"
        ) from None
    _loaded[path] = library, file
    return library


def _file_at(path: str) -> tuple[int, ...]:
    about = os.stat(path)
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def handlers_in(table: c_api.HandlerTable) -> Iterator[Handler]:
    """The handlers of all platforms."""
    for i in range(table.num_handlers):
        # The library's own stride: its rows may be longer than this reader's,
        # and shorter.
        at = table.handlers + i * table.handler_size
        entry = c_api.HandlerEntry.from_address(at)
        stages = {s: getattr(entry, s) for s in STAGES if getattr(entry, s)}
        has_signature = table.handler_size >= ctypes.sizeof(entry)
        yield Handler(
            entry.name.decode(),
            _jax_platform(entry),
            stages,
            entry.signature if has_signature else None,
        )


def types_in(table: c_api.HandlerTable) -> Iterator[StateType]:
    """The state types of all platforms."""
    for i in range(table.num_types):
        entry = c_api.TypeEntry.from_address(table.types + i * table.type_size)
        name, platform = entry.name.decode(), _jax_platform(entry)
        yield StateType(name, platform, entry.type_id, entry.type_info)


def _jax_platform(entry: c_api.HandlerEntry | c_api.TypeEntry) -> str:
    name: str = entry.platform.decode()
    return _PLATFORMS.get(name, name.lower())


def libraries_beside(
    file: str | os.PathLike[str], name: str
) -> tuple[HandlerLibrary, HandlerLibrary]:
    """The handler libraries of an operation, in the folder of a Python file.

    Args:
      file: the `__file__` of a module. Links are not resolved: under Bazel the
        file is a link in the runfiles, and the libraries are beside the link.
      name: `<name>_cpu.so` contains the handlers for CPUs, `<name>_cuda.so`
        those for CUDA. If the latter is missing, operations run their reference
        on CUDA.

    Returns:
      Both libraries, for the `libraries` of an `FfiOp`.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(file)), name)
    return (
        HandlerLibrary(f"{path}_cpu.so", "cpu"),
        HandlerLibrary(f"{path}_cuda.so", "cuda", optional=True),
    )


def find(
    libraries: Sequence[HandlerLibrary], platform: str, target: str
) -> HandlerLibrary | None:
    """Returns the library that has `target`; None if the reference must run.

    Raises HandlerLibraryError if a required library lacks the target.
    """
    offered = [lib for lib in libraries if lib.platform == platform]
    present = [lib for lib in offered if lib.exists]
    for library in present:
        if target in library.handlers:
            return library
    required = present or [lib for lib in offered if not lib.optional]
    if not required:
        return None
    required[0].handler(target)  # raises, naming file and target
    return required[0]  # which appeared meanwhile


def all_of(
    libraries: Library | Sequence[Library], where: str = "libraries"
) -> tuple[HandlerLibrary, ...]:
    """Returns one or several libraries or paths as a tuple of libraries."""
    if isinstance(libraries, HandlerLibrary | str | os.PathLike):
        libraries = (libraries,)
    if not isinstance(libraries, Iterable):
        raise TypeError(
            f"{where}: expected handler libraries or their paths, got "
            f"{libraries!r}"
        )
    return tuple(
        lib if isinstance(lib, HandlerLibrary) else HandlerLibrary(lib)
        for lib in libraries
    )


# The kit's own libraries, in the package.
KIT_LIBRARIES = libraries_beside(os.path.dirname(__file__), "_lib/xla_ffi_kit")
# The handler that launches kernels out of programs, on CUDA. Compiling it needs
# no CUDA, so it stands in the library that every wheel has.
LAUNCHER = HandlerLibrary(KIT_LIBRARIES[0].path, "cuda", optional=True)
