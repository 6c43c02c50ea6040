"""What runs an operation on a platform, and why: what lowering decides by.

On a platform without a handler the reference runs in silence, because this is
what it is for. If the target is registered nowhere, there is a warning, and if
the call insists on the handler, an error.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings

from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.library.handler_library import HandlerLibrary
from xla_ffi_kit.op.reference_switch import runs_reference
from xla_ffi_kit.op.spec import (
    DeviceKernel,
    OpSpec,
    PlatformHandler,
    targets_of,
)

_lock = threading.Lock()
_names_warned_of: set[str] = set()


def reason(
    spec: OpSpec, platform: str, handler: PlatformHandler | None = None
) -> str | None:
    """Why no call of an operation runs a handler on a platform.

    None if handlers run. A single call may run the reference nevertheless. May
    start JAX's backends.

    Args:
      spec: the operation.
      platform: JAX's name of the platform.
      handler: one of its targets there; by default all that it has.
    """
    if runs_reference(spec):
        return "use_reference switches it off"
    handler = handler or spec.handlers.get(platform)
    if handler is None:
        platforms = f"{', '.join(spec.handlers)} alone"
        return f"it has handlers for {platforms if spec.handlers else _NONE}"
    if isinstance(handler, DeviceKernel):
        return None
    reasons = (_without(spec, platform, t) for t in targets_of(handler))
    return next(filter(None, reasons), None)


def _without(spec: OpSpec, platform: str, target: str) -> str | None:
    """Why no handler runs as a target of an operation."""
    if spec.if_registered and not registration.is_registered(target, platform):
        return (
            f"no target {target!r} is registered; give libraries= or register "
            "it with jax.ffi.register_ffi_target (as api_version=1) before the "
            "first call"
        )
    if (
        not handler_library.serves(spec.libraries, platform)
        or library_of(spec, platform, target) is not None
    ):
        return None
    missing = [
        os.path.basename(library.path)
        for library in spec.libraries
        if not library.exists
    ]
    if missing:
        return f"its library {', '.join(missing)} is missing"
    return f"its libraries have no {target!r} for {platform}"


_NONE = "no platform"


def library_of(
    spec: OpSpec, platform: str, target: str
) -> HandlerLibrary | None:
    """The library with a target of an operation, if one has it.

    Raises HandlerLibraryError as `handler_library.find` does.
    """
    if not handler_library.serves(spec.libraries, platform):
        return None
    return handler_library.find(spec.libraries, platform, target)


def refuse(spec: OpSpec, platforms: str, why: str | None = None) -> None:
    """Raises NotImplementedError for a call that insists on the handler."""
    reasons = [reason(spec, platform) for platform in platforms.split(", ")]
    why = why or next(filter(None, reasons), None)
    raise NotImplementedError(
        f"{spec.name}: implementation: expected the handler on {platforms}, "
        "but the reference would run: "
        f"{why or 'this call runs what partitioned= or the kernel asks for'}"
    )


def warn_if_unregistered(spec: OpSpec, platforms: str) -> None:
    """Warns once of an operation whose target is registered on no platform."""
    if not spec.if_registered or runs_reference(spec):
        return
    reasons = [reason(spec, platform) for platform in spec.handlers]
    with _lock:
        if None in reasons or spec.name in _names_warned_of:
            return
        _names_warned_of.add(spec.name)
    warnings.warn(
        f"{spec.name}: the reference runs on {platforms}, because "
        f"{reasons[0]}; handlers={{}} says that the reference is meant",
        stacklevel=_level_of_user(),
    )


def _level_of_user() -> int:
    """The `stacklevel`, in the calling function, of the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] not in _INNER:
            break
        level, frame = level + 1, frame.f_back
    return level


_INNER = {"contextlib", "functools", "jax", "jaxlib", "xla_ffi_kit"}
