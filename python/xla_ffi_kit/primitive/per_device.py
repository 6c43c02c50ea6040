"""Calls that XLA's own partitioner of batches would make wrong.

That partitioner makes a new custom call for the part of each device, without
aliases and side effects, and splits every operand like the first. These two
ways lower the operation again for the part that a device has.
"""

from __future__ import annotations

import dataclasses
import hashlib
import weakref
from collections.abc import Callable, Sequence

import jax
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Shape
from xla_ffi_kit._jax_hooks import HloSharding, Sharding, XlaShape
from xla_ffi_kit.primitive import sharding
from xla_ffi_kit.primitive.sharding import AxisSpec
from xla_ffi_kit.primitive.spec import Arrays

_TARGET = "xla_ffi_kit.on_each_device"


@dataclasses.dataclass(frozen=True, eq=False)
class _Call:
    """What XLA asks for the program of one device."""

    run: Callable[..., Arrays]
    platform: str


# By the hash of their program, which a program's cache key contains. A program
# that is not compiled yet keeps its calls alive.
_calls: weakref.WeakValueDictionary[str, _Call] = weakref.WeakValueDictionary()


def split(
    ctx: LoweringRuleContext,
    run: Callable[..., Arrays],
    platform: str,
    lead: Shape,
    operands: Sequence[ir.Value],
    *,
    shared: Sequence[int],
    has_side_effect: bool,
) -> Sequence[ir.Value]:
    """Lowers to a call that XLA splits by asking for one device's program.

    XLA calls back into Python for that, so an exported program cannot contain
    it. Batch axes that their devices do not divide are gathered.

    Args:
      ctx: the context of the rule.
      run: the operation, called with the part of each operand.
      platform: the platform of the rule.
      lead: the leading shape that operands and results have.
      operands: the operands' values.
      shared: which operands have no batch axes.
      has_side_effect: whether the call must be neither removed nor repeated.
    """
    types = [_struct(a) for a in _jax_hooks.shaped(ctx.avals_in)]
    results = [_struct(a) for a in _jax_hooks.shaped(ctx.avals_out)]
    program = _jax_hooks.module_of(run, types, platform)
    key = hashlib.sha256(str(program).encode()).hexdigest()
    _jax_hooks.keep_alive(ctx, _calls.setdefault(key, _Call(run, platform)))
    call = _jax_hooks.custom_call(
        _TARGET,
        result_types=[
            ir.RankedTensorType.get(x.shape, mlir.dtype_to_ir_type(x.dtype))
            for x in results
        ],
        operands=operands,
        backend_config=key,
        has_side_effect=has_side_effect,
    )
    names, replicated = sharding.batch_rule(
        lead, [x.shape for x in (*types, *results)], shared
    )
    count = len(types)
    sharding.set_rule(call, names[:count], names[count:], replicated)
    values: Sequence[ir.Value] = call.results
    return values


def _struct(aval: ShapedArray) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype)


def _partition(
    shapes: Sequence[XlaShape],
    shardings: Sequence[Sharding],
    result: XlaShape,
    result_sharding: Sharding,
    key: bytes,
) -> tuple[bytes, Sequence[Sharding], Sharding]:
    """The program of one device, and the shardings of its operands and results.

    XLA calls it for each call of `_TARGET` in a program.
    """
    call = _calls[key.decode()]
    is_tuple = result.is_tuple()
    arrays = [*shapes, *(result.tuple_shapes() if is_tuple else [result])]
    ways = [*shardings]
    ways += result_sharding.tuple_elements() if is_tuple else [result_sharding]
    count = len(shapes)
    parts = _parts(arrays, ways)
    if parts is None or _results_of(call, parts[:count]) != parts[count:]:
        ways = [HloSharding.replicate()] * len(arrays)
        parts = _parts(arrays, ways)
        assert parts is not None
    module = _jax_hooks.module_of(call.run, parts[:count], call.platform)
    if is_tuple:
        result_sharding = HloSharding.tuple_sharding(result, ways[count:])
    else:
        (result_sharding,) = ways[count:]
    return mlir.module_to_bytecode(module), ways[:count], result_sharding


def _parts(
    arrays: Sequence[XlaShape], ways: Sequence[Sharding]
) -> list[jax.ShapeDtypeStruct] | None:
    """What a device has of each array; None if one of them would be padded."""
    parts = []
    for array, way in zip(arrays, ways, strict=True):
        shape = array.dimensions()
        part = way.tile(array).dimensions()
        if not way.is_replicated() and any(
            size != own * pieces
            for size, own, pieces in zip(
                shape, part, way.tile_assignment_dimensions(), strict=False
            )
        ):
            return None
        parts.append(jax.ShapeDtypeStruct(part, array.numpy_dtype()))
    return parts


def _results_of(
    call: _Call, operands: Sequence[jax.ShapeDtypeStruct]
) -> list[jax.ShapeDtypeStruct] | None:
    """The types of a call's results; None if operands are split differently."""
    try:
        return list(jax.eval_shape(call.run, *operands))
    except ValueError:
        return None


_jax_hooks.register_partitioner(_TARGET, _partition)


def in_manual_region(
    ctx: LoweringRuleContext,
    run: Callable[..., Arrays],
    lead: Shape,
    operands: Sequence[ir.Value],
    *,
    specs: Sequence[AxisSpec],
    shared: Sequence[int],
) -> Sequence[ir.Value | Sequence[ir.Value]]:
    """Lowers to a `shard_map` over all axes of the mesh that are not in one.

    Args:
      ctx: the context of the rule.
      run: the operation, called with the part of each operand.
      lead: the leading shape that operands and results have.
      operands: the operands' values.
      specs: the mesh axes that the axes of `lead` are sharded over. Over others
        operands are gathered, and each device computes the same.
      shared: which operands have no batch axes.
    """
    mesh = _jax_hooks.mesh_of(ctx)
    if mesh.empty:  # Only the number of devices is known.
        mesh = AbstractMesh((_jax_hooks.partition_count(ctx),), ("devices",))
    manual = _jax_hooks.manual_axes(ctx)
    # Types with shardings could not be gathered.
    mesh = mesh.update_axis_types(
        {
            name: AxisType.Manual if name in manual else AxisType.Auto
            for name in mesh.axis_names
        }
    )
    avals = [
        ShapedArray(a.shape, a.dtype) for a in _jax_hooks.shaped(ctx.avals_in)
    ]

    def spec_of(index: int, shape: Shape) -> PartitionSpec:
        if index in shared:
            return PartitionSpec()
        return PartitionSpec(
            *(
                axis if size == whole else None
                for axis, size, whole in zip(specs, shape, lead, strict=False)
            )
        )

    mapped = jax.shard_map(
        run,
        mesh=mesh,
        in_specs=tuple(spec_of(i, a.shape) for i, a in enumerate(avals)),
        out_specs=PartitionSpec(*specs),
        axis_names=set(mesh.axis_names) - manual,
        check_vma=False,
    )
    lower: LoweringRule = mlir.lower_fun(mapped, multiple_results=True)
    with jax.sharding.use_abstract_mesh(mesh):
        return lower(ctx.replace(avals_in=avals), *operands)
