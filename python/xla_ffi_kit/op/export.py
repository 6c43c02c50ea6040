"""Exporting programs that call handlers."""

from __future__ import annotations

from collections.abc import Callable

from jax import export

from xla_ffi_kit.op.operations import operations_in


def export_checks(
    *ops: Callable[..., object],
) -> tuple[export.DisabledSafetyCheck, ...]:
    """The safety checks to disable to export programs with these operations.

    `jax.export` refuses custom calls that it does not know, because a
    serialized program may outlive the library that defines them. Who exports a
    program with handlers promises that they are there where it runs: importing
    `xla_ffi_kit` registers its own, `register_handlers` those of other
    libraries.

    Example:
      exported = jax.export.export(
          jax.jit(f), disabled_checks=export_checks(op)
      )(x)

    Args:
      *ops: the operations, or functions that call them, such as
        `xla_ffi_kit.relu`. All targets of their libraries are allowed, so that
        an export with a `vjp_order` may call those of the derivatives.
    """
    found = [op for named in ops for op in operations_in(named)]
    targets = {
        target: None
        for op in found
        for target in op.handlers.values()
        if isinstance(target, str)
    }
    for library in {
        id(lib): lib for op in found for lib in op.libraries
    }.values():
        if library.exists:
            targets.update(dict.fromkeys(library.handlers))
    return tuple(
        export.DisabledSafetyCheck.custom_call(target) for target in targets
    )
