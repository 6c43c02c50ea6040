"""What runs an operation on a platform, and why: what lowering decides."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Container

from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.library import handler_library, registration
from xla_ffi_kit.op import reference_switch
from xla_ffi_kit.op.device_kernel import DeviceKernel
from xla_ffi_kit.op.spec import OpSpec


@dataclasses.dataclass(frozen=True)
class Implementation:
    """The implementation that an operation runs on one platform."""

    name: str  # the operation's
    platform: str  # "cpu", "cuda"
    runs: str  # file name of the library that serves it, or "reference"
    # The reason for the reference, what stands in the way, or which kernel.
    why: str = ""
    problem: bool = False  # using the operation there is an error


def of(op: OpSpec, platform: str, here: Container[str]) -> Implementation:
    """Returns what an operation runs on a platform.

    Args:
      op: the operation.
      platform: JAX's name of a platform that it has a handler for.
      here: the platforms that have a device.
    """
    return Implementation(op.name, platform, *_of(op, platform, here))


def _of(
    op: OpSpec, platform: str, here: Container[str]
) -> tuple[str] | tuple[str, str] | tuple[str, str, bool]:
    if reference_switch.runs_reference(op):
        return "reference", "switched to it"
    otherwise = "reference" if op.reference else "nothing: an error"
    target = op.handlers[platform]
    if isinstance(target, DeviceKernel):
        return target.runs, target.report()
    if not isinstance(target, str):
        return ("other operations",)
    if not handler_library.serves(op.libraries, platform):
        if op.if_registered and not registration.is_registered(
            target, platform
        ):
            return otherwise, f"no handler {target} is registered"
        return ("a handler that the program registers",)
    try:
        library = handler_library.find(op.libraries, platform, target)
    except HandlerLibraryError as error:
        return "error", str(error), True
    if library is None:
        return otherwise, f"no library for {platform}"
    why = "" if platform in here else f"no {platform} device"
    return os.path.basename(library.path), why
