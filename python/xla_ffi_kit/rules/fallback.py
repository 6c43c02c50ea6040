"""What follows if the handler of a call does not run.

On a platform that has none, the reference runs in silence, because this is what
it is for. It is a warning if the target is registered nowhere, and an error if
the call insists on the handler.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Sequence
from typing import TypeAlias

from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.device_kernel import DeviceKernel, targets_of
from xla_ffi_kit.op.reference_switch import runs_reference
from xla_ffi_kit.op.spec import OpSpec

Lowered: TypeAlias = Sequence[ir.Value | Sequence[ir.Value]]
_lock = threading.Lock()
_warned: set[str] = set()  # names of operations


def reason(spec: OpSpec, platform: str) -> str | None:
    """Why no call of an operation runs a handler on a platform.

    None if handlers run. A single call may run the reference nevertheless. May
    start JAX's backends.
    """
    if runs_reference(spec):
        return "use_reference switches it off"
    handler = spec.handlers.get(platform)
    if handler is None:
        known = ", ".join(spec.handlers)
        return f"it has handlers for {f'{known} alone' if known else _NONE}"
    for target in targets_of(handler):
        if isinstance(handler, DeviceKernel):
            continue
        why = _without(spec, platform, target)
        if why is not None:
            return why
    return None


def _without(spec: OpSpec, platform: str, target: str) -> str | None:
    """Why no handler runs as a target of an operation."""
    if spec.if_registered and not registration.is_registered(target, platform):
        return (
            f"no target {target!r} is registered; give libraries= or register "
            "it with jax.ffi.register_ffi_target (as api_version=1) before the "
            "first call"
        )
    libraries = spec.libraries
    if not handler_library.serves(libraries, platform) or handler_library.find(
        libraries, platform, target
    ):
        return None
    missing = [library.path for library in libraries if not library.exists]
    if missing:
        return f"its library {', '.join(missing)} is missing"
    return f"its libraries have no {target!r} for {platform}"


_NONE = "no platform"


def lowers_reference(spec: OpSpec, rule: LoweringRule) -> LoweringRule:
    """`rule`, which runs the reference, with the warning or the error."""

    def lower(
        ctx: LoweringRuleContext,
        *operands: ir.Value,
        attributes: AttributeValues,
    ) -> Lowered:
        platforms = _jax_hooks.platforms(ctx)
        if attributes.insists:
            refuse(spec, platforms)
        if spec.if_registered and not runs_reference(spec):
            _warn(spec, platforms)
        return rule(ctx, *operands, attributes=attributes)

    return lower


def refuse(spec: OpSpec, platforms: str, why: str | None = None) -> None:
    """Raises for a call that insists on the handler."""
    found = [reason(spec, platform) for platform in platforms.split(", ")]
    why = why or next(filter(None, found), None)
    raise NotImplementedError(
        f"{spec.name}: implementation: expected the handler on {platforms}, "
        "but the reference would run: "
        f"{why or 'this call runs what partitioned= or the kernel asks for'}"
    )


def _warn(spec: OpSpec, platforms: str) -> None:
    """Warns once of a target that is registered on no platform."""
    why = [reason(spec, platform) for platform in spec.handlers]
    with _lock:
        if None in why or spec.name in _warned:
            return
        _warned.add(spec.name)
    warnings.warn(
        f"{spec.name}: the reference runs on {platforms}, because {why[0]}; "
        "handlers={} says that the reference is meant",
        stacklevel=_callers_level(),
    )


def _callers_level() -> int:
    """The `stacklevel`, in the calling function, of the user's line."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] not in _INNER:
            break
        level, frame = level + 1, frame.f_back
    return level


_INNER = {"contextlib", "functools", "jax", "jaxlib", "xla_ffi_kit"}
