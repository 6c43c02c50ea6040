"""Checks of export: a round trip, a symbolic batch, its derivative."""

from __future__ import annotations

from typing import Any

from jax import export

from xla_ffi_kit.op.export import export_checks
from xla_ffi_kit.testing import _case, _checks_calls
from xla_ffi_kit.testing._compare import Failure, Runner, Skipped

_ROUND_TRIP = (
    "export.deserialize(export.export(jax.jit(f), disabled_checks=checks)"
    "({types}).serialize({order}))"
)


def round_trip(run: Runner) -> None:
    """Exported, serialized and read back, with the derivative if any."""
    names: dict[str, Any] = {
        "export": export,
        "checks": export_checks(run.op),
    }
    program = _ROUND_TRIP.format(types="*x", order="")
    run.same(f"{program}.call(*x)", **names)
    if not all(_case.is_inexact(x) for x in run.case.operands()):
        return
    program = _ROUND_TRIP.format(types="*x", order="vjp_order=1")
    code = f"jax.jit(jax.grad(lambda *p: scalar({program}.call(*p)), 0))(*x)"
    run.same(code, factor=8, **names)


def symbolic_batch(run: Runner) -> None:
    """Exported with a batch of symbolic size, called with two sizes."""
    count = len(run.op.operand_names)
    if run.op.vmap_method == "sequential" or not count:
        raise Skipped("the kernel does not batch")
    (size,) = export.symbolic_shape("b")
    names: dict[str, Any] = {
        "export": export,
        "checks": export_checks(run.op),
        "size": size,
    }
    axes = _case.call_axes(run.op)
    types = (
        "*(jax.ShapeDtypeStruct(v.shape if a is None else (size, "
        f"*v.shape[1:]), v.dtype) for v, a in zip(x, {axes}))"
    )
    program = _ROUND_TRIP.format(types=types, order="")
    two_sizes = f"[p.call(*x), p.call(*case.batched({axes}, 5))]"
    run.same(
        f"(lambda p: {two_sizes})({program})",
        f"case.batched({axes}, 3)",
        **names,
    )


def other_platforms(run: Runner) -> None:
    """Lowered for a platform without a handler, it runs the reference."""
    code = "jax.jit(f).trace(*x).lower(lowering_platforms=('tpu',)).as_text()"
    text = run.evaluate(code)
    for target in _checks_calls.targets(run):
        if f"@{target}(" in text:
            raise Failure(f"{target!r} in a TPU program", run.snippet(code))
