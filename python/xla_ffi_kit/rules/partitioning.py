"""Shards the leading (batch) axes of an operation, and no kernel axes.

XLA knows nothing of a custom call and gathers its operands. Three things
together keep batch shards in place (jax 0.8.1 to 0.12): the target registered
as batch-partitionable, the frontend attribute `num_batch_dims`, and a Shardy
rule saying which axes of operands and results go together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TypeAlias

import jax
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ir
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Shape
from xla_ffi_kit.op.axes import OF_ITS_OWN
from xla_ffi_kit.op.spec import OpSpec

# The mesh axes that an array's axis is sharded over.
AxisSpec: TypeAlias = str | tuple[str, ...] | None


def annotate(
    call: ir.OpView,
    operands: Sequence[Sequence[str]],
    results: Sequence[Sequence[str]],
    *,
    replicated: Sequence[str],
    batch: int,
) -> None:
    """Annotates a custom call so that XLA can partition it.

    XLA makes a new call of it, without aliases and side effects. It pads batch
    axes that the devices do not divide; see `divided`.

    Args:
      call: the custom call.
      operands: a name for each axis of each operand; axes with the same name
        are sharded together.
      results: the same for the results.
      replicated: the names of axes that cannot be sharded.
      batch: the number of leading batch axes.
    """
    set_rule(call, operands, results, replicated)
    call.operation.attributes["mhlo.frontend_attributes"] = (
        _jax_hooks.string_attributes({"num_batch_dims": str(batch)})
    )


def set_rule(
    call: ir.OpView,
    operands: Sequence[Sequence[str]],
    results: Sequence[Sequence[str]],
    replicated: Sequence[str],
) -> None:
    """Tells XLA which axes of a custom call shard together; see `annotate`."""
    rule = " -> ".join(
        ", ".join(" ".join(names) for names in values)
        for values in (operands, results)
    )
    call.operation.attributes["sdy.sharding_rule"] = _jax_hooks.sharding_rule(
        rule,
        replicated,
        [x.type for x in call.operands],
        [x.type for x in call.results],
    )


def annotate_batch(
    call: ir.OpView,
    lead: Shape,
    operands: Sequence[Shape],
    results: Sequence[Shape],
    shared: Sequence[int] = (),
    letters: Sequence[Sequence[str]] = (),
) -> None:
    """Lets XLA partition a custom call over its batch axes; see `annotate`.

    Args:
      call: the custom call.
      lead: the leading shape that operands and results have.
      operands: their shapes.
      results: the same for the results.
      shared: which operands have no batch axes.
      letters: the names of the last axes of operands and results; results are
        sharded along these axes as operands are.
    """
    if not lead or not _check.is_static(*operands, *results):
        return  # There is no batch, or a size that Shardy cannot take.
    leads = [() if i in shared else lead for i in range(len(operands))]
    leads += [lead] * len(results)
    names, replicated = batch_rule(leads, (*operands, *results))
    for axes, ends in zip(names, letters, strict=False):
        for axis, letter in enumerate(ends, len(axes) - len(ends)):
            is_one = letter != OF_ITS_OWN and ends.count(letter) == 1
            if axes[axis] in replicated and is_one:
                replicated.remove(axes[axis])
                axes[axis] = f"n{letter}"
    restored = (name for axes in names for name in axes if name[0] == "n")
    replicated += dict.fromkeys(restored)
    count = len(operands)
    annotate(
        call,
        names[:count],
        names[count:],
        replicated=replicated,
        batch=len(lead),
    )


def restored_axes(spec: OpSpec, results: int) -> list[Sequence[str]]:
    """Names of axes of operands and results, if names shard alike."""
    last = spec.result_letters
    if spec.advanced.sharded_kernel_axes != "restore" or not last:
        return []
    of_results = [last[min(i, len(last) - 1)] for i in range(results)]
    return [*(o.letters for o in spec.operands), *of_results]


def is_explicit(mesh: AbstractMesh) -> bool:
    """Whether the types of arrays say all of how a mesh shards them.

    They are never sharded unevenly then.
    """
    return not mesh.empty and AxisType.Auto not in mesh.axis_types


def placed_like(x: jax.Array, aval: ShapedArray) -> jax.Array:
    """`x` with the sharding that the type of an Explicit mesh's array says."""
    sharding = aval.sharding
    if sharding.mesh.empty or jax.typeof(x).sharding == sharding:
        return x
    if not all(kind == AxisType.Explicit for kind in sharding.mesh.axis_types):
        return x
    placed: jax.Array = jax.sharding.reshard(x, sharding)
    return placed


def alike(
    spec: OpSpec, operands: Sequence[jax.Array], lead: Shape
) -> list[jax.Array]:
    """Operands whose batch axes an Explicit mesh shards alike, as vmap needs.

    An operand has either the size of a batch axis in `lead`, or one.
    """
    avals = [jax.typeof(x) for x in operands]
    if all(a.sharding.mesh.empty for a in avals):
        return list(operands)
    batch = lead_specs(spec, avals, lead)
    placed = []
    for i, (x, aval) in enumerate(zip(operands, avals, strict=True)):
        over = list(specs_of(aval))
        for axis in range(spec.batch_rank(i, aval)):
            if aval.shape[axis] == lead[axis]:
                over[axis] = batch[axis]
        sharding = NamedSharding(aval.sharding.mesh, PartitionSpec(*over))
        placed.append(placed_like(x, aval.update(sharding=sharding)))
    return placed


def divided(ctx: LoweringRuleContext, lead: Shape) -> Shape:
    """The first axes of a leading shape that XLA splits without padding them.

    Args:
      ctx: the context of the rule that lowers the call.
      lead: the leading shape that operands and results have.

    Returns:
      The sizes of these axes, none if a size is not known. Axes behind them
      must not be split: XLA would call the handler with rows that are no
      operand's.
    """
    if is_explicit(_jax_hooks.mesh_of(ctx)):
        return lead
    if not _check.is_static(lead):
        return ()
    devices = _jax_hooks.partition_count(ctx)
    even = itertools.takewhile(lambda size: size % devices == 0, lead)
    return tuple(even)


def batch_rule(
    leads: Sequence[Shape], shapes: Sequence[Shape]
) -> tuple[list[list[str]], list[str]]:
    """Returns names of all axes, and of those that do not shard.

    Args:
      leads: for each array, how many of each batch axis there are, which it
        has, or of which it has one.
      shapes: the shapes of the arrays.
    """
    replicated: list[str] = []
    return [
        _axis_names(lead, shape, f"v{i}", replicated)
        for i, (lead, shape) in enumerate(zip(leads, shapes, strict=True))
    ], replicated


def _axis_names(
    lead: Shape, shape: Shape, prefix: str, replicated: list[str]
) -> list[str]:
    names = []
    for axis, size in enumerate(shape):
        if axis < len(lead) and size == lead[axis]:
            names.append(f"b{axis}")
        else:  # It is a kernel axis, or a batch axis of size one.
            names.append(f"{prefix}k{axis}")
            replicated.append(names[-1])
    return names


def result_avals(
    spec: OpSpec,
    operands: Sequence[ShapedArray],
    results: Sequence[jax.ShapeDtypeStruct],
    lead: Shape,
) -> list[ShapedArray]:
    """The results' abstract values, sharded as the operands' batch axes are.

    Raises ValueError if an Explicit mesh shards a kernel axis.
    """
    if all(a.sharding.mesh.empty for a in operands):  # This is most often so.
        space = operands[0].memory_space
        return [
            ShapedArray(t.shape, t.dtype, memory_space=space) for t in results
        ]
    if spec.advanced.sharded_kernel_axes == "error":
        _check_kernel_axes(spec, operands)
    template = next(a for a in operands if not a.sharding.mesh.empty)
    mesh = template.sharding.mesh
    batch = lead_specs(spec, operands, lead)
    first = batch[: spec.depth(operands)]
    avals = []
    for i, x in enumerate(results):
        specs = first if i in spec.shared_results else batch
        whole = (None,) * (len(x.shape) - len(specs))
        aval: ShapedArray = template.update(
            shape=tuple(x.shape),
            dtype=x.dtype,
            weak_type=False,
            sharding=NamedSharding(mesh, PartitionSpec(*specs, *whole)),
        )
        avals.append(aval)
    return avals


def specs_of(aval: ShapedArray) -> tuple[AxisSpec, ...]:
    """Per axis, the explicit mesh axes that it is sharded over, or None."""
    spec: tuple[AxisSpec, ...] = tuple(aval.sharding.spec)
    return spec + (None,) * (len(aval.shape) - len(spec))


def lead_specs(
    spec: OpSpec, avals: Sequence[ShapedArray], lead: Shape
) -> list[AxisSpec]:
    """The sharding of the leading axes that all operands agree on."""
    merged: list[AxisSpec] = [None] * len(lead)
    owner = [""] * len(lead)
    for name, aval, axes in zip(
        spec.operand_names, avals, spec.kernel_axes, strict=True
    ):
        batch = specs_of(aval)[: len(aval.shape) - axes]
        for axis, over in enumerate(batch):
            if over is None or merged[axis] == over:
                continue
            if merged[axis] is not None:
                raise ValueError(
                    f"{spec.name}: operand {name}: axis {axis} is sharded over "
                    f"{over!r}, expected {merged[axis]!r} as operand "
                    f"{owner[axis]} has it; use jax.sharding.reshard on one"
                )
            merged[axis], owner[axis] = over, name
    return merged


def _check_kernel_axes(spec: OpSpec, operands: Sequence[ShapedArray]) -> None:
    """Refuses operands whose kernel axes are sharded (explicit meshes)."""
    for i, (name, aval) in enumerate(
        zip(spec.operand_names, operands, strict=True)
    ):
        axes = specs_of(aval)
        for axis in range(spec.batch_rank(i, aval), len(axes)):
            if axes[axis] is not None:
                raise ValueError(
                    f"{spec.name}: operand {name}: axis {axis - len(axes)} is "
                    f"sharded over {axes[axis]!r}, expected it not to be: "
                    "kernel axes must not be sharded; reshard it first with "
                    "jax.sharding.reshard, or define the operation with "
                    "advanced=Advanced(sharded_kernel_axes='gather')"
                )
