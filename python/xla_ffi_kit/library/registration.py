"""Registers handlers with JAX, at import or at their first use.

If no backend is up, JAX keeps registrations and passes them on when the backend
starts, so an import starts none. Handlers with state are registered at their
first use, because jaxlib 0.10.2 passes on handlers before their types, and then
its CPU backend does not start.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
from collections.abc import Iterator

import jax
import jaxlib

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit.library import known_faults, releases
from xla_ffi_kit.library.handler_library import (
    KIT_LIBRARIES,
    LAUNCHER,
    Handler,
    HandlerLibrary,
    HandlerLibraryError,
    Library,
    StateType,
    all_of,
)

_lock = threading.RLock()
# (target, platform) -> file it was registered from, for this process.
_handlers: dict[tuple[str, str], str] = {}
# The same key -> the address of each stage.
_stages: dict[tuple[str, str], dict[str, int]] = {}
_types: set[tuple[str, str]] = set()


def _renew_lock() -> None:
    # A fork while another thread registers would leave the lock held forever.
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


@functools.cache
def runtime_api_version() -> tuple[int, int] | None:
    """Returns the FFI version of the running jaxlib, from its headers.

    It is None if jaxlib has no headers. Then only XLA checks the version.
    """
    header = os.path.join(jax.ffi.include_dir(), "xla/ffi/api/c_api.h")
    try:
        with open(header, encoding="utf-8") as file:
            text = file.read()
    except OSError:
        return None
    found = [
        re.search(rf"#define\s+XLA_FFI_API_{part}\s+(\d+)", text)
        for part in ("MAJOR", "MINOR")
    ]
    if not all(found):
        return None
    return tuple(int(match[1]) for match in found if match)  # type: ignore


def register(library: HandlerLibrary, target: str) -> None:
    """Registers `target` of `library`, types first; you may repeat it.

    It does nothing if this process has no backend for the library's platform,
    because cross-platform lowering and export need no registration.
    """
    if library.platform == "cpu":
        known_faults.warn_once()
    if _handlers.get((target, library.platform)) == library.path:
        return
    if not _backend_is_up(library.platform):
        return
    with _lock:
        _register(library, target)


def register_at_import(*libraries: HandlerLibrary) -> None:
    """Registers the handlers of libraries without state; starts no backend.

    Call it in a package of operations. Once the package is imported, exported
    programs that call the operations run. An error is raised at the first use
    of a handler, so you can import a package whose library cannot be used.

    Args:
      *libraries: handler libraries. Handlers that keep state are registered at
        their first use.
    """
    if runtime_api_version() is None:
        return  # XLA would refuse a wrong version when a backend starts
    for library in libraries:
        with contextlib.suppress(HandlerLibraryError), _lock:
            if library.exists and not library.types:
                for target in library.handlers:
                    _register(library, target)


def _register(library: HandlerLibrary, target: str) -> None:
    key = (target, library.platform)
    owner = _handlers.get(key)
    if owner == library.path:
        return
    handler = library.handler(target)
    if owner is not None and _stages[key] == handler.stages:
        return  # the same file by another path
    if owner is not None:
        raise HandlerLibraryError(
            f"handler {target!r} for {library.platform} of {library.path} "
            f"is already registered from {owner}; a process has one "
            "handler per name, so rename one of the two"
        )
    for state_type in library.types:
        _register_type(library, state_type)
    _check_version(library, handler)
    stages = {s: jax.ffi.pycapsule(a) for s, a in handler.stages.items()}
    with _blaming(f"handler {target!r} of {library.path}"):
        jax.ffi.register_ffi_target(target, stages, _xla(library.platform))
    jax.ffi.register_ffi_target_as_batch_partitionable(target)
    _stages[key] = handler.stages
    _handlers[key] = library.path  # last: others look at it without lock


def registered() -> list[str]:
    """The custom call targets that this process has registered."""
    return [target for target, _ in list(_handlers)]


def is_registered(target: str, platform: str) -> bool:
    """Whether a program of `platform` may call `target`."""
    return _backend_is_up(platform) and _jax_hooks.is_registered(
        target, _xla(platform)
    )


def register_handlers(*libraries: Library) -> None:
    """Registers every handler of the libraries; by default, the kit's.

    Libraries may be paths.

    You need it only if no operation is lowered in the process, for example
    before a program from `jax.export` runs. Importing the kit registers the
    kit's own handlers. This function starts JAX's backends.

    Raises:
      HandlerLibraryError: a library cannot be used.
    """
    for library in all_of(libraries) or (*KIT_LIBRARIES, LAUNCHER):
        if library.optional and not library.exists:
            continue
        for target in library.handlers:
            register(library, target)


def _register_type(library: HandlerLibrary, state_type: StateType) -> None:
    name = state_type.name
    if (name, library.path) in _types:
        return
    registration = {"type_id": jax.ffi.pycapsule(state_type.type_id)}
    if state_type.type_info:
        registration["type_info"] = jax.ffi.pycapsule(state_type.type_info)
    with _blaming(f"state type {name!r} of {library.path}"):
        jax.ffi.register_ffi_type(
            name,
            registration,  # type: ignore[arg-type]
            _xla(library.platform),
        )
    _types.add((name, library.path))


@contextlib.contextmanager
def _blaming(what: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise HandlerLibraryError(
            f"{what} cannot be registered: {error}"
        ) from error


def _check_version(library: HandlerLibrary, handler: Handler) -> None:
    runtime = runtime_api_version()
    jaxlib_version = jaxlib.__version__
    try:
        built = handler.metadata().api_version
    except ValueError as error:
        raise HandlerLibraryError(
            f"handler {handler.name!r} of {library.path} does not answer the "
            f"metadata call: {error}"
        ) from None
    keeps_state = library.types and "instantiate" in handler.stages
    if keeps_state and releases.crashes(built, jaxlib_version):
        raise HandlerLibraryError(
            f"handler {handler.name!r} of {library.path} keeps state and is "
            f"built for XLA FFI {built[0]}.{built[1]}; jaxlib "
            f"{jaxlib_version} crashes on such handlers; use jaxlib 0.9.0 or "
            "older, or 0.10.0 or newer"
        )
    oldest = releases.OLDEST
    if runtime is None or oldest <= built <= runtime:
        return
    advice = (
        "update jaxlib, or build the library with older XLA headers"
        if built > runtime
        else "rebuild the library with newer XLA headers"
    )
    raise HandlerLibraryError(
        f"handler {handler.name!r} of {library.path} is built for XLA FFI "
        f"{built[0]}.{built[1]}, but jaxlib {jaxlib_version} takes "
        f"{oldest[0]}.{oldest[1]} to {runtime[0]}.{runtime[1]}; {advice}"
    )


def _backend_is_up(platform: str) -> bool:
    """Starts JAX's backends; whether one of them is `platform`."""
    try:
        jax.local_devices(backend=platform)
    except RuntimeError:
        return False
    return True


def _xla(platform: str) -> str:
    # jax.ffi maps "cpu" itself; XLA's name is the only spelling of the other.
    return {"cuda": "CUDA", "rocm": "ROCM"}.get(platform, platform)
