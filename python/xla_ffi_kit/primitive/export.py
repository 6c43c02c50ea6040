"""Exporting programs that call handlers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable

from jax import export

from xla_ffi_kit.library import registration
from xla_ffi_kit.library.handler_library import (
    KIT_LIBRARIES,
    LAUNCHER,
    HandlerLibrary,
    HandlerLibraryError,
)
from xla_ffi_kit.primitive import ffi_op
from xla_ffi_kit.primitive.called_operations import operations_in
from xla_ffi_kit.primitive.device_kernel import target_of
from xla_ffi_kit.primitive.spec import OpSpec


def export_checks(
    *ops: Callable[..., object],
) -> tuple[export.DisabledSafetyCheck, ...]:
    """Returns the safety checks to disable when you export operations.

    `jax.export` refuses custom calls that it does not know, because a
    serialized program may outlive the library that defines them. If you export
    a program with handlers, make sure that they are registered where it runs:
    importing `xla_ffi_kit` registers the kit's, and `register_handlers` those
    of other libraries.

    Example:
      exported = jax.export.export(
          jax.jit(f), disabled_checks=export_checks()
      )(x)

    Args:
      *ops: the operations, or functions that call them, such as
        `xla_ffi_kit.relu`; also methods, closures, partial and jitted
        functions. All targets of their libraries are allowed, so that an export
        with a `vjp_order` may call those of the derivatives. Default: every
        operation of this process, and every handler that it has registered.

    Raises:
      TypeError: no operation is found in a function, for example because it
        gets the operation as an argument. Without arguments, `export_checks`
        allows such operations too.
    """
    found: list[OpSpec] = []
    for named in ops:
        try:
            found += operations_in(named, derivatives=True)
        except TypeError as error:
            raise TypeError(
                f"export_checks: {error}; export_checks() without arguments "
                "allows every operation of this process"
            ) from None
    if ops:
        targets = _targets(found)
    else:
        targets = registration.registered()
        targets += _targets(ffi_op.operations(), (*KIT_LIBRARIES, LAUNCHER))
    return tuple(
        export.DisabledSafetyCheck.custom_call(target)
        for target in dict.fromkeys(targets)
    )


def _targets(
    operations: Iterable[OpSpec], libraries: Iterable[HandlerLibrary] = ()
) -> list[str]:
    """Returns the targets of operations and of libraries, theirs too."""
    targets: list[str] = []
    every = {id(library): library for library in libraries}
    for op in operations:
        every |= {id(library): library for library in op.libraries}
        called = map(target_of, op.handlers.values())
        targets += [target for target in called if target is not None]
    for library in every.values():
        # An unusable library raises when an operation is lowered.
        with contextlib.suppress(HandlerLibraryError):
            targets += library.handlers if library.exists else ()
    return targets
