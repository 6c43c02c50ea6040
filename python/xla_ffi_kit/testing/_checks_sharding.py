"""Checks on meshes: shards stay in place, Auto and Explicit, and shard_map."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from xla_ffi_kit.testing import _case
from xla_ffi_kit.testing._compare import Failure, Runner, Skipped, difference

_COLLECTIVES = (
    "all-gather",
    "all-reduce",
    "all-to-all",
    "collective-permute",
    "reduce-scatter",
)
_SIZE = 4
_REFERENCE = "implementation='reference'"

_GRAD = (
    "lambda *x: jax.grad(lambda *x: scalar(f(*x)), tuple(i for i, v in "
    "enumerate(x) if v.dtype.kind in 'fcV'))(*x)"
)


def _batch(run: Runner) -> str:
    if jax.device_count() < _SIZE:
        raise Skipped(
            f"{jax.device_count()} devices; needs {_SIZE}: XLA_FLAGS="
            f"--xla_force_host_platform_device_count={_SIZE}"
        )
    if run.op.vmap_method == "sequential" or not run.op.operand_names:
        raise Skipped("the kernel does not batch")
    return f"case.batched({_case.call_axes(run.op)}, {_SIZE})"


def _mesh(kind: AxisType) -> Any:
    devices = jax.devices()[:_SIZE]
    return jax.make_mesh((_SIZE,), ("d",), axis_types=(kind,), devices=devices)


def _in_place(run: Runner, kind: AxisType) -> None:
    operands = _batch(run)
    mesh = _mesh(kind)
    sharding = NamedSharding(mesh, PartitionSpec("d"))
    whole = NamedSharding(mesh, PartitionSpec())
    name = f"AxisType.{kind.name}"
    axes = _case.call_axes(run.op)
    put = (
        "tuple(jax.device_put(v, whole if a is None else sharding) "
        f"for v, a in zip({operands}, {axes}))"
        f"  # on a mesh of {_SIZE} devices, {name}"
    )
    # What each has no batch axis of: it is summed over the shards.
    shared = {"f": run.op.shared_results}
    if any(_case.is_inexact(v) for v in run.case.operands()):
        inexact = [_case.is_inexact(v) for v in run.case.operands()]
        wanted = [i for i, float_ in enumerate(inexact) if float_]
        shared[_GRAD] = tuple(
            j for j, i in enumerate(wanted) if i in run.op.shared
        )
    reference = f"functools.partial(f, {_REFERENCE})"
    wants = [
        run.evaluate(
            f"(lambda f: jax.jit({function})(*x))({reference})", operands
        )
        for function in shared
    ]
    names: dict[str, Any] = {"sharding": sharding, "whole": whole}
    with jax.set_mesh(mesh):
        for function, want in zip(shared, wants, strict=True):
            code = f"jax.jit({function}).lower(*x).compile()"
            text, got = run.evaluate(
                f"(lambda run: (run.as_text(), run(*x)))({code})", put, **names
            )
            found = [name for name in _COLLECTIVES if name in text]
            if shared[function] and found == ["all-reduce"]:
                found = []
            if found:
                raise Failure(
                    f"{', '.join(found)} for sharded batch axes ({name})",
                    run.snippet(f"{code}.as_text()", put),
                )
            code = f"jax.jit({function})(*x)"
            for i, leaf in enumerate(jax.tree.leaves(got)):
                right = whole if i in shared[function] else sharding
                if leaf.sharding.is_equivalent_to(right, leaf.ndim):
                    continue
                # A constant, such as the gradient through integers, is whole.
                of_reference = f"(lambda f: {code})({reference})"
                expected = run.evaluate(of_reference, put, **names)
                like = jax.tree.leaves(expected)[i].sharding
                if leaf.sharding.is_equivalent_to(like, leaf.ndim):
                    continue
                raise Failure(
                    f"a result is sharded as {leaf.sharding}, expected {right}",
                    run.snippet(code, put),
                )
            problem = difference(got, want, 8)
            if problem:
                raise Failure(problem, run.snippet(code, put))


def auto_mesh(run: Runner) -> None:
    """No collective on an Auto mesh, forward and backward."""
    _in_place(run, AxisType.Auto)


def explicit_mesh(run: Runner) -> None:
    """No collective, and the right sharding type, on an Explicit mesh."""
    _in_place(run, AxisType.Explicit)


def shard_map(run: Runner) -> None:
    """Inside shard_map; gradients of replicated operands are summed."""
    _batch(run)
    count = len(run.op.operand_names)
    operands = f"case.batched({(0,) * count}, {_SIZE})"
    mesh = _mesh(AxisType.Auto)
    names = {"mesh": mesh, "P": PartitionSpec}
    body = "lambda *x: jax.tree.map(lambda y: y[None], f(*(v[0] for v in x)))"
    run.same(
        f"jax.jit(jax.shard_map({body}, mesh=mesh, in_specs=P('d'), "
        "out_specs=P('d')))(*x)",
        operands,
        **names,
    )
    floats = [_case.is_inexact(v) for v in run.case.operands()]
    if not all(floats) or count < 2:
        return
    # The first operand sharded, the others replicated.
    specs = ", ".join(["P('d')"] + ["P()"] * (count - 1))
    mixed = f"case.batched({(0, *(None,) * (count - 1))}, {_SIZE})"
    loss = "lambda v, *r: jax.lax.psum(scalar(f(v[0], *r)), 'd')"
    run.same(
        f"jax.jit(jax.grad(jax.shard_map({loss}, mesh=mesh, "
        f"in_specs=({specs},), out_specs=P()), {tuple(range(count))}))(*x)",
        mixed,
        factor=8,
        **names,
    )
