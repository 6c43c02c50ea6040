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
from collections.abc import Callable, Iterator

import jax
import jaxlib

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import releases
from xla_ffi_kit.library.handler_library import (
    KIT_LIBRARIES,
    HandlerLibrary,
    Library,
    all_of,
)
from xla_ffi_kit.library.rows import Handler, StateType

_lock = threading.RLock()
# (target, platform) -> file it was registered from, for this process.
_handlers: dict[tuple[str, str], str] = {}
# The same key -> the address of each stage.
_stages: dict[tuple[str, str], dict[str, int]] = {}
_types: set[tuple[str, str, str]] = set()  # name, platform, file


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
    parts = r"#define\s+XLA_FFI_API_(MAJOR|MINOR)\s+(\d+)"
    version = {name: int(number) for name, number in re.findall(parts, text)}
    return (version["MAJOR"], version["MINOR"]) if len(version) == 2 else None


def register(*libraries: Library) -> None:
    """Registers every handler of the libraries with JAX; by default, the kit's.

    Libraries may be paths. An `FfiOp` registers its handlers itself, at its
    first use. A program that calls them without the operation, such as one from
    `jax.export`, needs this function; importing the kit registers the kit's.

    Call it where a package of operations is imported: it starts no backend of
    JAX, unless handlers keep state. Those can be registered only with a backend
    that runs.

    Raises:
      HandlerLibraryError: a library cannot be used.
    """
    for library in all_of(libraries) or KIT_LIBRARIES:
        if library.optional and not library.exists:
            continue
        _register_all(library, register_handler)


def register_early(library: HandlerLibrary) -> None:
    """Registers what needs no backend; leaves errors to the first use."""
    with contextlib.suppress(HandlerLibraryError):
        _register_all(library, lambda *_: None)


def _register_all(
    library: HandlerLibrary,
    wait: Callable[[HandlerLibrary, str, str], None],
) -> None:
    """Registers all handlers; `wait` gets those that need a backend."""
    with_state = {state_type.platform for state_type in library.types}
    for target, platform in library.handlers:
        # Without a version of its own, XLA would refuse a handler only when the
        # backend starts, which then does not.
        if runtime_api_version() is None or platform in with_state:
            wait(library, target, platform)
        else:
            with _lock:
                _register(library, target, platform)


def register_handler(
    library: HandlerLibrary, target: str, platform: str
) -> None:
    """Registers a handler of `library`, types first; you may repeat it.

    It does nothing if this process has no backend for the platform, because
    cross-platform lowering and export need no registration.
    """
    if _handlers.get((target, platform)) == library.path:
        return
    if _backend_is_up(platform):
        with _lock:
            _register(library, target, platform)


def _register(library: HandlerLibrary, target: str, platform: str) -> None:
    key = (target, platform)
    owner = _handlers.get(key)
    if owner == library.path:
        return
    handler = library.handler(target, platform)
    if owner is not None and _stages[key] == handler.stages:
        return  # the same file by another path
    if owner is not None:
        raise HandlerLibraryError(
            f"handler {target!r} for {platform} of {library.path} is already "
            f"registered from {owner}; a process has one handler per name, so "
            "rename one of the two"
        )
    types = [t for t in library.types if t.platform == platform]
    for state_type in types:
        _register_type(library, state_type)
    _check_version(library, handler, bool(types))
    stages = {s: jax.ffi.pycapsule(a) for s, a in handler.stages.items()}
    remedy = ""
    if not types and "instantiate" in stages:
        maker = "xla_ffi_library() or build_library"
        if not library.is_file:
            maker = "HandlerLibrary.from_capsules"
        remedy = f"; pass the types of its state to {maker}, types=..."
    with _blaming(f"handler {target!r} of {library.path}", remedy):
        jax.ffi.register_ffi_target(target, stages, _xla(platform))
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


def _register_type(library: HandlerLibrary, state_type: StateType) -> None:
    name, platform = state_type.name, state_type.platform
    if (name, platform, library.path) in _types:
        return
    registration = {"type_id": jax.ffi.pycapsule(state_type.type_id)}
    if state_type.type_info:
        registration["type_info"] = jax.ffi.pycapsule(state_type.type_info)
    with _blaming(f"state type {name!r} of {library.path}"):
        jax.ffi.register_ffi_type(
            name,
            registration,  # type: ignore[arg-type]
            _xla(platform),
        )
    _types.add((name, platform, library.path))


@contextlib.contextmanager
def _blaming(what: str, remedy: str = "") -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise HandlerLibraryError(
            f"{what} cannot be registered: {error}{remedy}"
        ) from error


def _check_version(
    library: HandlerLibrary, handler: Handler, has_types: bool
) -> None:
    try:
        built = handler.metadata().api_version
    except ValueError as error:
        raise HandlerLibraryError(
            f"handler {handler.name!r} of {library.path} does not answer the "
            f"metadata call: {error}"
        ) from None
    problem = releases.problem(
        built,
        jaxlib.__version__,
        runtime_api_version(),
        state=has_types and "instantiate" in handler.stages,
    )
    if problem:
        raise HandlerLibraryError(
            f"handler {handler.name!r} of {library.path} {problem}"
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
