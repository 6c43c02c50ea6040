"""Shards the leading (batch) axes of an operation, and no kernel axes.

XLA knows nothing of a custom call and gathers its operands. Three things
together keep batch shards in place (jax 0.8.1 to 0.12): the target registered
as batch-partitionable, the frontend attribute `num_batch_dims`, and a Shardy
rule saying which axes of operands and results go together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import jax
import numpy as np
from jax.core import ShapedArray
from jax.experimental.custom_partitioning import custom_partitioning
from jax.interpreters.mlir import ir
from jax.sharding import NamedSharding, PartitionSpec

from xla_ffi_kit import _check, _jax_hooks
from xla_ffi_kit._check import Shape
from xla_ffi_kit.primitive.spec import Arrays, OpSpec

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

    Args:
      call: the custom call.
      operands: a name for each axis of each operand; axes with the same name
        are sharded together.
      results: the same for the results.
      replicated: the names of axes that cannot be sharded.
      batch: the number of leading batch axes.
    """
    attributes = call.operation.attributes
    attributes["sdy.sharding_rule"] = _jax_hooks.sharding_rule(
        _rule(operands, results),
        replicated,
        [x.type for x in call.operands],
        [x.type for x in call.results],
    )
    attributes["mhlo.frontend_attributes"] = _jax_hooks.string_attributes(
        {"num_batch_dims": str(batch)}
    )


def annotate_batch(
    call: ir.OpView,
    lead: Shape,
    operands: Sequence[Shape],
    results: Sequence[Shape],
    shared: Sequence[int] = (),
) -> None:
    """Lets XLA partition a custom call over its batch axes.

    Args:
      call: the custom call.
      lead: the leading shape that operands and results have.
      operands: their shapes.
      results: the same for the results.
      shared: which operands have no batch axes.
    """
    if not lead or not _check.is_static(*operands, *results):
        return  # no batch, or a symbolic shape, which Shardy cannot take
    names, replicated = _batch_rule(lead, (*operands, *results), shared)
    count = len(operands)
    annotate(
        call,
        names[:count],
        names[count:],
        replicated=replicated,
        batch=len(lead),
    )


def over_devices(
    call: Callable[..., Arrays],
    lead: Shape,
    operands: Sequence[Shape],
    results: Sequence[Shape],
    shared: Sequence[int] = (),
) -> Callable[..., Arrays]:
    """Returns a function that XLA lowers again for the shapes of one device.

    XLA calls back into Python for that, so an exported program cannot contain
    it.
    """

    def partition(
        mesh: object, operands: object, results: object
    ) -> tuple[object, ...]:
        def shardings(types: object) -> object:
            return jax.tree.map(lambda x: x.sharding, types)

        return mesh, call, shardings(results), shardings(operands)

    names, replicated = _batch_rule(lead, (*operands, *results), shared)
    partitioned = custom_partitioning(call)
    partitioned.def_partition(
        partition,
        sharding_rule=_rule(names[: len(operands)], names[len(operands) :]),
        need_replication_factors=tuple(replicated),
    )
    return cast(Callable[..., Arrays], partitioned)


def _batch_rule(
    lead: Shape, shapes: Sequence[Shape], shared: Sequence[int]
) -> tuple[list[list[str]], list[str]]:
    """Names of all axes, and of those that do not shard."""
    replicated: list[str] = []
    return [
        _axis_names(() if i in shared else lead, s, f"v{i}", replicated)
        for i, s in enumerate(shapes)
    ], replicated


def _rule(
    operands: Sequence[Sequence[str]], results: Sequence[Sequence[str]]
) -> str:
    return " -> ".join(
        ", ".join(" ".join(names) for names in values)
        for values in (operands, results)
    )


def _axis_names(
    lead: Shape, shape: Shape, prefix: str, replicated: list[str]
) -> list[str]:
    names = []
    for axis, size in enumerate(shape):
        if axis < len(lead) and size == lead[axis]:
            names.append(f"b{axis}")
        else:  # the kernel's own, or a batch axis of size one
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
    if spec.sharded_kernel_axes == "error":
        for i, (name, aval) in enumerate(
            zip(spec.operand_names, operands, strict=True)
        ):
            check_kernel_axes(spec.name, name, aval, spec.own_axes(i, aval))
    template = next((a for a in operands if has_mesh(a)), operands[0])
    specs = _lead_specs(spec, operands, lead)
    first = specs[: spec.depth(operands)]
    return [
        with_specs(
            template,
            t.shape,
            t.dtype,
            first if i in spec.shared_results else specs,
        )
        for i, t in enumerate(results)
    ]


def operand_specs(aval: ShapedArray) -> tuple[AxisSpec, ...]:
    """Per axis, the explicit mesh axes that it is sharded over, or None."""
    spec: tuple[AxisSpec, ...] = tuple(aval.sharding.spec)
    return spec + (None,) * (len(aval.shape) - len(spec))


def has_mesh(aval: ShapedArray) -> bool:
    """Whether an abstract value belongs to a mesh."""
    return not aval.sharding.mesh.empty


def with_specs(
    template: ShapedArray,
    shape: Shape,
    dtype: np.dtype[np.generic],
    specs: Sequence[AxisSpec],
) -> ShapedArray:
    """An abstract value like `template`, of another shape and sharding.

    `specs` are those of the first axes.
    """
    specs = [*specs, *(None,) * (len(shape) - len(specs))]
    sharding = NamedSharding(template.sharding.mesh, PartitionSpec(*specs))
    aval: ShapedArray = template.update(
        shape=tuple(shape), dtype=dtype, weak_type=False, sharding=sharding
    )
    return aval


def _lead_specs(
    spec: OpSpec, avals: Sequence[ShapedArray], lead: Shape
) -> list[AxisSpec]:
    """The sharding of the leading axes that all operands agree on."""
    merged: list[AxisSpec] = [None] * len(lead)
    owner = [""] * len(lead)
    for name, aval, axes in zip(
        spec.operand_names, avals, spec.kernel_axes, strict=True
    ):
        batch = operand_specs(aval)[: len(aval.shape) - axes]
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


def check_kernel_axes(op: str, name: str, aval: ShapedArray, lead: int) -> None:
    """Refuses an operand whose kernel axes are sharded (explicit meshes)."""
    for axis, spec in enumerate(operand_specs(aval)):
        if axis >= lead and spec is not None:
            back = axis - len(aval.shape)
            raise ValueError(
                f"{op}: operand {name}: axis {back} is sharded over {spec!r}, "
                "expected it not to be: kernel axes must not be sharded; "
                "reshard it first with jax.sharding.reshard"
            )
