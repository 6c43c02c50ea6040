"""Exporting programs that call handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from jax import export

from xla_ffi_kit import ffi_op
from xla_ffi_kit.errors import HandlerLibraryError
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.library import registration
from xla_ffi_kit.library.handler_library import (
    KIT_LIBRARIES,
    HandlerLibrary,
)
from xla_ffi_kit.op.spec import Result, targets_of


def export_checks(
    *ops: FfiOp[Result],
) -> tuple[export.DisabledSafetyCheck, ...]:
    """Returns the safety checks to disable when you export operations.

    `jax.export` refuses custom calls that it does not know, because a
    serialized program may outlive the library that defines them. If you export
    a program with handlers, make sure that they are registered where it runs:
    importing `xla_ffi_kit` registers the kit's, and `register` those of
    other libraries.

    Example:
      exported = jax.export.export(
          jax.jit(f), disabled_checks=export_checks()
      )(x)

    Args:
      *ops: the operations that the program calls, those too that other
        operations call in a function of their spec, such as `jvp` or
        `partitioned`. All targets of their libraries are allowed, and those
        of derivatives by the kernel itself that have been lowered. Default:
        every operation of this process, and every handler that it has
        registered.

    Raises:
      TypeError: something else than an operation is given.
    """
    for op in ops:
        if not isinstance(op, FfiOp):
            raise TypeError(
                f"export_checks: argument ops: expected operations, got {op!r};"
                " name the operations that it calls, or none: "
                "export_checks() allows every operation of this process"
            )
    if ops:
        targets = _targets(ops)
    else:
        targets = registration.registered()
        targets += _targets(ffi_op.operations(), KIT_LIBRARIES)
    return tuple(
        export.DisabledSafetyCheck.custom_call(target)
        for target in dict.fromkeys(targets)
    )


def _targets(
    operations: Iterable[FfiOp[Result]],
    libraries: Iterable[HandlerLibrary] = (),
) -> list[str]:
    """Returns the targets of operations and of libraries, theirs too."""
    targets: list[str] = []
    by_id = {id(library): library for library in libraries}
    for op in operations:
        by_id |= {id(library): library for library in op.spec.libraries}
        for handler in op.spec.handlers.values():
            targets += targets_of(handler)
        if op.spec.advanced.differentiate is not None:
            targets += op.spec.advanced.differentiate.targets()
    for library in by_id.values():
        # If a library cannot be read, the lowering of its operation says so.
        with contextlib.suppress(HandlerLibraryError):
            targets += library.targets if library.exists else ()
    return targets
