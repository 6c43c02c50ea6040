"""Exporting programs that call handlers."""

from __future__ import annotations

from jax import export

from xla_ffi_kit.op.spec import OpSpec


def export_checks(*ops: OpSpec) -> tuple[export.DisabledSafetyCheck, ...]:
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
      *ops: the operations. All targets of their libraries are allowed, so that
        an export with a `vjp_order` may call those of the derivatives.
    """
    targets = {
        target: None
        for op in ops
        for target in op.handlers.values()
        if isinstance(target, str)
    }
    for library in {
        id(lib): lib for op in ops for lib in op.libraries
    }.values():
        if library.exists:
            targets.update(dict.fromkeys(library.handlers))
    return tuple(
        export.DisabledSafetyCheck.custom_call(target) for target in targets
    )
