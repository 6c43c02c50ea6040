"""Checks of export: a round trip, a symbolic batch, its derivative."""

from __future__ import annotations

import importlib.util

from xla_ffi_kit.testing import _case, _checks_calls
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing._runner import Call, Failure, Runner, Skipped


def round_trip(run: Runner) -> None:
    """Exported, serialized and read back, with the derivative if any."""
    _needs_serialization()
    run.same(
        Call(programs.call_exported), want=run.expected(_checks_calls.JITTED)
    )
    operands = run.case.operands()
    if operands and all(_case.is_inexact(x) for x in operands):
        run.same(
            Call(programs.grad_of_exported),
            want=run.expected(Call.of(programs.grad_towards, index=0)),
            factor=8,
        )


def symbolic_batch(run: Runner) -> None:
    """Exported with a batch of symbolic size, called with two sizes."""
    _needs_serialization()
    _checks_calls.check_batches(run)
    if run.spec.advanced.shape_attributes is not None:
        raise Skipped("shape_attributes need known sizes")
    axes = _case.call_axes(run.op)
    run.same(
        Call.of(programs.call_exported_with_two_sizes, axes, axes=axes),
        want=run.expected(
            Call.of(programs.called_with_two_sizes, axes, axes=axes)
        ),
    )


def _needs_serialization() -> None:
    if importlib.util.find_spec("flatbuffers") is None:
        raise Skipped("jax.export serializes with flatbuffers: pip install it")


def other_platforms(run: Runner) -> None:
    """Lowered for a platform without a handler, it runs the reference.

    Without a reference it is an error.
    """
    call = Call(programs.tpu_text)
    if run.spec.reference is None:
        try:
            call.program(*run.arguments(call))
        except NotImplementedError as error:
            if str(error).startswith(f"{run.op.name}: no handler for tpu"):
                return
        raise Failure("expected an error that says so", run.snippet(call))
    text = run.text(call)
    for target in _checks_calls.targets(run):
        if f"@{target}(" in text:
            raise Failure(f"{target!r} in a TPU program", run.snippet(call))
