"""Checks on meshes: shards stay in place, Auto and Explicit, and shard_map."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Literal, cast

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from xla_ffi_kit.testing import _case, _checks_calls
from xla_ffi_kit.testing import _programs as programs
from xla_ffi_kit.testing import _programs_unusual as unusual
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
_KINDS = ("Auto", "Explicit")


def _check_device_count() -> None:
    if jax.device_count() < _SIZE:
        raise Skipped(
            f"{jax.device_count()} devices; needs {_SIZE}: XLA_FLAGS="
            f"--xla_force_host_platform_device_count={_SIZE}"
        )


def _check_devices(run: Runner) -> None:
    _check_device_count()
    _checks_calls.check_batches(run)
    if not all(x.size for x in run.case.operands()):
        # jax 0.8 refuses to shard its own results.
        raise Skipped("the case has no elements")


def _in_place(run: Runner, kind: Literal["Auto", "Explicit"]) -> None:
    _check_devices(run)
    axes = _case.call_axes(run.op)
    inexact = [_case.is_inexact(v) for v in run.case.operands()]
    _stays(
        run,
        kind,
        programs.on_mesh,
        programs.jitted,
        tuple(run.spec.shared_results),
    )
    if any(inexact):
        # The slope of a shared operand is summed over the shards.
        floats = [i for i, is_float in enumerate(inexact) if is_float]
        summed = tuple(j for j, i in enumerate(floats) if axes[i] is None)
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
    collectives = [name for name in _COLLECTIVES if name in text]
    # Nothing in JAX has a side effect, so that such calls run whole.
    gathers = run.spec.advanced.has_side_effect and (
        run.spec.advanced.workspace or run.spec.shared_results
    )
    if (
        collectives
        and not gathers
        and not (summed and collectives == ["all-reduce"])
    ):
        raise Failure(
            f"{', '.join(collectives)} for sharded batch axes ({kind} mesh)",
            run.snippet(call),
        )
    mesh = programs.mesh_of(kind)
    for i, leaf in enumerate(jax.tree.leaves(got)):
        spec = PartitionSpec() if i in summed else PartitionSpec("d")
        right = NamedSharding(mesh, spec)
        if leaf.sharding.is_equivalent_to(right, leaf.ndim):
            continue
        # A constant, such as the gradient through integers, is whole.
        _, expected = cast(tuple[str, object], run.expected(call))
        like = jax.tree.leaves(expected)[i].sharding
        if not leaf.sharding.is_equivalent_to(like, leaf.ndim):
            raise Failure(
                f"a result is sharded as {leaf.sharding}, expected {right}",
                run.snippet(call),
            )
    want = run.expected(Call(plain, axes, _SIZE))
    run.compare(call, got, want, factor=8)


def auto_mesh(run: Runner) -> None:
    """No collective on an Auto mesh, forward and backward."""
    _in_place(run, "Auto")


def explicit_mesh(run: Runner) -> None:
    """No collective, and the right sharding type, on an Explicit mesh."""
    _in_place(run, "Explicit")


def vmap_on_meshes(run: Runner) -> None:
    """vmap of sharded rows where it does not repeat what it does not map."""
    _check_device_count()
    count = len(run.spec.operand_names)
    if run.spec.advanced.vmap_method == "broadcast_all" or not count:
        raise Skipped("vmap repeats operands: see auto mesh, explicit mesh")
    axes = (0, *(None,) * (count - 1))
    want = run.expected(Call.of(programs.vmapped, axes, _SIZE, in_axes=axes))
    for kind in _KINDS:
        call = Call.of(
            unusual.vmapped_on_mesh, axes, _SIZE, in_axes=axes, kind=kind
        )
        text, got = cast(tuple[str, object], run.run(call))
        run.compare(call, got, want, what=f"on an {kind} mesh: ")
        collectives = [name for name in _COLLECTIVES if name in text]
        if collectives:
            raise Failure(
                f"{', '.join(collectives)} for sharded rows ({kind} mesh)",
                run.snippet(call),
            )


def uneven_batch(run: Runner) -> None:
    """A batch that the devices do not divide: no handler gets padding.

    XLA pads the shards with any bytes, which a handler may not survive.
    """
    _check_devices(run)
    run.needs_bytes()
    axes = _case.call_axes(run.op)
    summed = run.spec.shared_results
    rows = jax.tree.leaves(run.expected(Call(programs.jitted, axes, _SIZE)))
    want = [
        np.concatenate([y, y[:1]])
        for i, y in enumerate(rows)
        if i not in summed
    ]
    for kind in _KINDS:
        call = Call.of(
            unusual.uneven_on_mesh, axes, _SIZE, axes=axes, kind=kind
        )
        text, program = cast(tuple[str, Callable[[], object]], run.run(call))
        for target in _checks_calls.targets(run):
            _check_padding(run, call, target, text)
        got = jax.tree.leaves(program())
        got = [y for i, y in enumerate(got) if i not in summed]
        what = f"{_SIZE + 1} rows on {_SIZE} devices ({kind} mesh): "
        run.compare(call, got, want, factor=8, what=what)


def _check_padding(run: Runner, call: Call, target: str, text: str) -> None:
    """Raises Failure if some call in a compiled program has a part of a batch.

    As an odd number of rows has no even parts, that part is padded.
    """
    whole = {
        x.size // _SIZE * (_SIZE + 1)
        for x, axis in zip(
            call.operands(run.case), _case.call_axes(run.op), strict=True
        )
        if axis is not None
    }
    for line in text.splitlines():
        if f'custom_call_target="{target}"' not in line:
            continue
        types = line.partition("operand_layout_constraints=")[2]
        sizes = {
            math.prod(map(int, filter(None, shape.split(","))))
            for shape in re.findall(r"\w\[([\d,]*)\]", types)
        }
        if not whole <= sizes:
            raise Failure(
                f"{_SIZE + 1} rows on {_SIZE} devices: the handler gets rows "
                f"of padding: {line.strip()}",
                run.snippet(call),
            )


def effects_on_meshes(run: Runner) -> None:
    """Two equal calls with a side effect, whose results nobody reads, stay."""
    if not run.spec.advanced.has_side_effect:
        raise Skipped("the operation has no side effects")
    target = _checks_calls.target_of_platform(run)
    _check_devices(run)
    axes = _case.call_axes(run.op)
    for kind in _KINDS:
        call = Call.of(
            unusual.unused_twice_on_mesh, axes, _SIZE, axes=axes, kind=kind
        )
        count = run.text(call).count(f'custom_call_target="{target}"')
        if count != 2:
            raise Failure(
                f"on an {kind} mesh, {count} of 2 calls with a side effect "
                "are left in the program of each device",
                run.snippet(call),
            )


def shard_map(run: Runner) -> None:
    """Inside shard_map; gradients of replicated operands are summed."""
    _check_devices(run)
    count = len(run.spec.operand_names)
    batch = (0,) * count
    run.same(
        Call(programs.in_shard_map, batch, _SIZE),
        want=run.expected(Call.of(programs.vmapped, batch, _SIZE, in_axes=0)),
    )
    floats = [_case.is_inexact(v) for v in run.case.operands()]
    if all(floats) and count > 1:
        # The first operand sharded, the others replicated.
        axes = (0, *(None,) * (count - 1))
        run.same(
            Call(programs.grad_of_shard_map, axes, _SIZE),
            want=run.expected(Call(programs.grad_over_rows, axes, _SIZE)),
            factor=8,
        )
