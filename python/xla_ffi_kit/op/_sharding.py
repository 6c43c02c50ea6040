"""How an operation's leading (batch) axes shard, and its kernel axes do not.

XLA knows nothing of a custom call and gathers its operands. Three things
together keep batch shards in place (jax 0.8.1 to 0.12): the target registered
as batch-partitionable, the frontend attribute `num_batch_dims`, and a Shardy
rule saying which axes of operands and results go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jax.sharding import NamedSharding, PartitionSpec

from xla_ffi_kit import _check, _jax_hooks

if TYPE_CHECKING:
    from xla_ffi_kit.op.ffi_op import FfiOp


def annotate(
    call: Any,
    lead: Sequence[int],
    shapes: Sequence[Sequence[int]],
    shared: Sequence[int] = (),
) -> None:
    """Gives a custom call what lets XLA partition its batch axes.

    Args:
      call: the MLIR operation.
      lead: the leading shape that operands and results have.
      shapes: the shapes of the operands, then of the results.
      shared: which of these have no batch axes.
    """
    if not lead or not _check.is_static(*shapes):
        return  # no batch, or a symbolic shape, which Shardy cannot take
    replicated: list[str] = []
    axes = [
        _factors(() if i in shared else lead, s, f"v{i}", replicated)
        for i, s in enumerate(shapes)
    ]
    operands = [x.type for x in call.operands]
    results = [x.type for x in call.results]
    rule = (
        f"{', '.join(axes[: len(operands)])} -> "
        f"{', '.join(axes[len(operands) :])}"
    )
    attributes = call.operation.attributes
    attributes["sdy.sharding_rule"] = _jax_hooks.sharding_rule(
        rule, replicated, operands, results
    )
    attributes["mhlo.frontend_attributes"] = _jax_hooks.string_attributes(
        {"num_batch_dims": str(len(lead))}
    )


def _factors(
    lead: Sequence[int],
    shape: Sequence[int],
    prefix: str,
    replicated: list[str],
) -> str:
    names = []
    for axis, size in enumerate(shape):
        if axis < len(lead) and size == lead[axis]:
            names.append(f"b{axis}")
        else:  # the kernel's own, or a batch axis of size one
            names.append(f"{prefix}k{axis}")
            replicated.append(names[-1])
    return " ".join(names)


def operand_specs(aval: Any) -> tuple[Any, ...]:
    """Per axis, the explicit mesh axes that it is sharded over, or None."""
    spec = tuple(aval.sharding.spec)
    return spec + (None,) * (len(aval.shape) - len(spec))


def has_mesh(aval: Any) -> bool:
    return not aval.sharding.mesh.empty


def with_specs(
    template: Any, shape: Sequence[int], dtype: Any, specs: Sequence[Any]
) -> Any:
    """An abstract value like `template`, of another shape and sharding.

    `specs` are those of the first axes.
    """
    specs = [*specs, *(None,) * (len(shape) - len(specs))]
    sharding = NamedSharding(template.sharding.mesh, PartitionSpec(*specs))
    return template.update(
        shape=tuple(shape), dtype=dtype, weak_type=False, sharding=sharding
    )


def lead_specs(
    op: FfiOp, avals: Sequence[Any], lead: Sequence[int]
) -> list[Any]:
    """The sharding of the leading axes that all operands agree on."""
    merged: list[Any] = [None] * len(lead)
    owner = [""] * len(lead)
    for name, aval, axes in zip(
        op.operand_names, avals, op.kernel_axes, strict=True
    ):
        batch = operand_specs(aval)[: len(aval.shape) - axes]
        for axis, spec in enumerate(batch):
            if spec is None or merged[axis] == spec:
                continue
            if merged[axis] is not None:
                raise ValueError(
                    f"{op.name}: operand {name}: axis {axis} is sharded over "
                    f"{spec!r}, expected {merged[axis]!r} as operand "
                    f"{owner[axis]} has it; use jax.sharding.reshard on one"
                )
            merged[axis], owner[axis] = spec, name
    return merged


def check_kernel_axes(op: str, name: str, aval: Any, lead: int) -> None:
    """Refuses an operand whose kernel axes are sharded (explicit meshes)."""
    for axis, spec in enumerate(operand_specs(aval)):
        if axis >= lead and spec is not None:
            back = axis - len(aval.shape)
            raise ValueError(
                f"{op}: operand {name}: axis {back} is sharded over {spec!r}, "
                "expected it whole: the kernel reads all of it; gather it with "
                "jax.sharding.reshard"
            )
