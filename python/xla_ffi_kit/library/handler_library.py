"""Finds, loads and reads handler libraries.

A handler library is a shared library with a handler table
(`xla_ffi/core/handler_table.h`). It is Python-free; ctypes loads it, so one
build serves every Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterable, Sequence
from typing import TypeAlias, Union

from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import c_api, elf, kept_objects, rows
from xla_ffi_kit.library.rows import Handler, Registrations, StateType
from xla_ffi_kit.library.signature import Signature

# A library or its path.
Library: TypeAlias = Union["HandlerLibrary", str, "os.PathLike[str]"]


class HandlerLibrary:
    """The handlers of a shared library, which is loaded when it is first used.

    The platforms of its handlers are those of its handler table. The definition
    of an `FfiOp` reads the table. The library stays loaded, whatever happens to
    the file.

    Args:
      path: the shared library.
      optional: whether the file may be missing; operations then run their
        reference where no other library has their handler. If the file existed
        and disappears before it is loaded, that is an error nevertheless.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, optional: bool = False
    ) -> None:
        # The dynamic linker looks for a mere name elsewhere.
        self.path = os.path.abspath(path)
        self.optional = optional
        self._was_seen = os.path.exists(self.path)
        self._kept: Registrations | None = None  # where it is no file

    @classmethod
    def from_capsules(
        cls,
        registrations: Registrations,
        platform: str = "cpu",
        *,
        types: Registrations | None = None,
        name: str = "an extension module",
    ) -> HandlerLibrary:
        """The handlers that an extension module offers as capsules.

        The module does not have to be built with the kit.

        Example:
          library = HandlerLibrary.from_capsules(
              jax_finufft.jax_finufft_cpu.registrations()
          )

        Args:
          registrations: target -> capsule, or target -> mapping of stages
            ("instantiate", "prepare", "initialize", "execute") to capsules.
            Modules return such mappings for `jax.ffi.register_ffi_target`.
          platform: JAX's name of the handlers' platform.
          types: name of a state type -> mapping of "type_id" and "type_info" to
            capsules, or the capsule of the id, as modules return them for
            `jax.ffi.register_ffi_type`. They are registered first.
          name: the name of the module, for errors.

        Raises:
          TypeError: a target or type has something else than capsules.
          ValueError: the platform is none that handlers have.
        """
        handlers = rows.of_capsules(registrations, platform)
        # Distinguishes it from other modules, because two may offer one target.
        library = cls.__new__(cls)
        library.path = f"{name} at {handlers[0].stages['execute']:#x}"
        library.optional, library._was_seen = False, True
        # A capsule may free what it points to.
        library._kept = {**registrations, **(types or {})}
        library.handlers = {(h.name, platform): h for h in handlers}
        library.types = rows.types_of_capsules(types or {}, platform)
        return library

    @staticmethod
    def beside(
        file: str | os.PathLike[str], name: str
    ) -> tuple[HandlerLibrary, HandlerLibrary]:
        """The handler libraries of an operation, in a Python file's folder.

        Args:
          file: the `__file__` of a module. Links are not resolved: under Bazel
            the file is a link in the runfiles, and the libraries are beside the
            link.
          name: `<name>_cpu.so` contains the handlers for CPUs,
            `<name>_cuda.so` those for CUDA. If the latter is missing,
            operations run their reference on CUDA.

        Returns:
          Both libraries, for the `libraries` of an `FfiOp`.
        """
        path = os.path.join(os.path.dirname(os.path.abspath(file)), name)
        return (
            HandlerLibrary(f"{path}_cpu.so"),
            HandlerLibrary(f"{path}_cuda.so", optional=True),
        )

    def __repr__(self) -> str:
        return f"HandlerLibrary({self.path!r})"

    def report(self, target: str) -> str:
        """How a handler runs, in a few words."""
        return f"the handler {target} of {os.path.basename(self.path)}"

    @property
    def is_file(self) -> bool:
        """Whether it is a shared library, rather than capsules."""
        return self._kept is None

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
    def handlers(self) -> dict[tuple[str, str], Handler]:
        """The handlers by custom call target and JAX's name of a platform."""
        table = rows.handlers_in(self._table)
        return {(handler.name, handler.platform): handler for handler in table}

    @property
    def targets(self) -> list[str]:
        """The custom call targets, in the order of the library."""
        return list(dict.fromkeys(target for target, _ in self.handlers))

    def platforms(self, target: str | None = None) -> list[str]:
        """JAX's names of the platforms that it has handlers for.

        They are CPUs and CUDA for a library that cannot be read: it may have
        handlers for either.

        Args:
          target: only the platforms that it has this target for.
        """
        try:
            keys = self.handlers
        except HandlerLibraryError:
            return ["cpu", "cuda"]
        return list(dict.fromkeys([p for t, p in keys if target in (None, t)]))

    @functools.cached_property
    def types(self) -> tuple[StateType, ...]:
        """The state types, to be registered before the handlers."""
        return tuple(rows.types_in(self._table))

    @property
    def parallel_for(self) -> int | None:
        """The address of the library's parallel loop."""
        slot = _parallel_for(self._table)
        return slot[0] if slot else None

    def handler(self, target: str, platform: str | None = None) -> Handler:
        """The handler of `target`; HandlerLibraryError if there is none.

        Args:
          target: the custom call target.
          platform: JAX's name of the platform; by default, the first that has
            the target.
        """
        platforms = self.platforms(target)
        handler = self.handlers.get(
            (target, platform or (platforms or [""])[0])
        )
        if handler is not None:
            return handler
        message = f"handler library {self.path} has no handler {target!r}"
        if platform:
            message += f" for {platform}"
        if platforms:
            raise HandlerLibraryError(
                f"{message}, only for {', '.join(platforms)}"
            )
        offered = ", ".join(sorted(self.targets)) or "nothing"
        raise HandlerLibraryError(f"{message}; it offers: {offered}")

    def signature(self, target: str) -> Signature | None:
        """Returns the signature of the handler of `target`.

        None if the handler does not state it: it is written with the plain FFI,
        or the library is older than signatures.
        """
        return self.handler(target).signature()

    def function(self, name: str) -> ctypes._FuncPointer:
        """A C function that the library exports."""
        function: ctypes._FuncPointer = getattr(self._library, name)
        return function

    def exports(self) -> elf.Exports:
        """The symbols that the library exports; loads it."""
        self._library  # noqa: B018
        return elf.exports(self.path)

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
                'XLA_FFI_KIT_HANDLER("my.target", Symbol)); handlers of '
                "another project are HandlerLibrary.from_capsules("
                '{"my.target": jax.ffi.pycapsule(ctypes.CDLL(path).Symbol)})'
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
    entry = _loaded.get(path)
    return entry[0] if entry else None


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
    problem = elf.problem(path)
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
        said = str(error)
        problem = elf.too_old_a_system(said) or elf.undefined(said)
        raise HandlerLibraryError(
            f"handler library {path} {problem or f'cannot be loaded: {error}'}"
        ) from None
    _loaded[path] = library, file
    kept_objects.give_to(library)
    return library


def _file_at(path: str) -> tuple[int, ...]:
    about = os.stat(path)
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def serves(libraries: Sequence[HandlerLibrary], platform: str) -> bool:
    """Whether some library has, or may have, handlers for a platform."""
    return any(platform in library.platforms() for library in libraries)


def find(
    libraries: Sequence[HandlerLibrary], platform: str, target: str
) -> HandlerLibrary | None:
    """Returns the library that has `target`; None if the reference must run.

    Raises HandlerLibraryError if none has it and a library cannot be read, or
    if a library for the platform has it for no other platform either.
    """
    present = [lib for lib in libraries if lib.exists or not lib.optional]
    for library in present:
        with contextlib.suppress(HandlerLibraryError):
            if (target, platform) in library.handlers:
                return library
    targets = {offered for library in present for offered in library.targets}
    for library in present:
        if target not in targets and platform in library.platforms():
            library.handler(target)  # raises, naming file and target
    return None


def all_of(
    libraries: Library | Sequence[Library], where: str = "libraries"
) -> tuple[HandlerLibrary, ...]:
    """Returns one or several libraries or paths as a tuple of libraries."""
    if isinstance(libraries, HandlerLibrary | str | os.PathLike):
        libraries = (libraries,)
    sequence = tuple(libraries) if isinstance(libraries, Iterable) else ()
    is_single = not isinstance(libraries, Iterable)
    if is_single or not all(
        isinstance(lib, HandlerLibrary | str | os.PathLike) for lib in sequence
    ):
        raise TypeError(
            f"{where}: expected handler libraries or their paths, got "
            f"{libraries!r}"
        )
    return tuple(
        lib if isinstance(lib, HandlerLibrary) else HandlerLibrary(lib)
        for lib in sequence
    )


# The kit's own libraries, in the package. The first one also has the handler
# that launches kernels out of programs, on CUDA: compiling it needs no CUDA.
KIT_LIBRARIES = HandlerLibrary.beside(
    os.path.dirname(__file__), "_lib/xla_ffi_kit"
)
