"""Checks on meshes: shards stay in place, Auto and Explicit, and shard_map."""

from __future__ import annotations

from typing import Literal, cast

import jax
from jax.sharding import NamedSharding, PartitionSpec

from xla_ffi_kit.testing import _case, _checks_calls
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing._runner import (
    Call,
    Failure,
    Program,
    Runner,
    Skipped,
)

_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
)
_SIZE = 4


def _check_devices(run: Runner) -> None:
    if jax.device_count() < _SIZE:
        raise Skipped(
            f"{jax.device_count()} devices; needs {_SIZE}: XLA_FLAGS="
            f"--xla_force_host_platform_device_count={_SIZE}"
        )
    _checks_calls.check_batches(run)


def _in_place(run: Runner, kind: Literal["Auto", "Explicit"]) -> None:
    _check_devices(run)
    axes = _case.call_axes(run.op)
    inexact = [_case.is_inexact(v) for v in run.case.operands()]
    _stays(run, kind, programs.on_mesh, programs.jitted, run.op.shared_results)
    if any(inexact):
        # The slope of a shared operand is summed over the shards.
        wanted = [i for i, is_float in enumerate(inexact) if is_float]
        summed = tuple(j for j, i in enumerate(wanted) if axes[i] is None)
        program, plain = programs.grad_on_mesh, programs.grad_of_batch
        _stays(run, kind, program, plain, summed)


def _stays(
    run: Runner,
    kind: Literal["Auto", "Explicit"],
    program: Program,
    plain: Program,
    summed: tuple[int, ...],
) -> None:
    """Checks one function; results `summed` over the shards are whole."""
    axes = _case.call_axes(run.op)
    call = Call.of(program, axes, _SIZE, axes=axes, kind=kind)
    text, got = cast(tuple[str, object], run.run(call))
    found = [name for name in _COLLECTIVES if name in text]
    if found and not (summed and found == ["all-reduce"]):
        raise Failure(
            f"{', '.join(found)} for sharded batch axes ({kind} mesh)",
            run.snippet(call),
        )
    mesh = programs.mesh_of(kind)
    for i, leaf in enumerate(jax.tree.leaves(got)):
        spec = PartitionSpec() if i in summed else PartitionSpec("d")
        right = NamedSharding(mesh, spec)
        if leaf.sharding.is_equivalent_to(right, leaf.ndim):
            continue
        # A constant, such as the gradient through integers, is whole.
        _, expected = cast(tuple[str, object], run.wanted(call))
        like = jax.tree.leaves(expected)[i].sharding
        if not leaf.sharding.is_equivalent_to(like, leaf.ndim):
            raise Failure(
                f"a result is sharded as {leaf.sharding}, expected {right}",
                run.snippet(call),
            )
    want = run.wanted(Call(plain, axes, _SIZE))
    run.compare(call, got, want, factor=8)


def auto_mesh(run: Runner) -> None:
    """No collective on an Auto mesh, forward and backward."""
    _in_place(run, "Auto")


def explicit_mesh(run: Runner) -> None:
    """No collective, and the right sharding type, on an Explicit mesh."""
    _in_place(run, "Explicit")


def shard_map(run: Runner) -> None:
    """Inside shard_map; gradients of replicated operands are summed."""
    _check_devices(run)
    count = len(run.op.operand_names)
    batch = (0,) * count
    run.same(
        Call(programs.in_shard_map, batch, _SIZE),
        want=run.wanted(Call.of(programs.vmapped, batch, _SIZE, in_axes=0)),
    )
    floats = [_case.is_inexact(v) for v in run.case.operands()]
    if all(floats) and count > 1:
        # The first operand sharded, the others replicated.
        axes = (0, *(None,) * (count - 1))
        run.same(
            Call(programs.grad_of_shard_map, axes, _SIZE),
            want=run.wanted(Call(programs.grad_over_rows, axes, _SIZE)),
            factor=8,
        )
