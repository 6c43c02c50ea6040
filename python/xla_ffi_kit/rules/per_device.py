"""Calls that XLA's own partitioner of batches would make wrong.

That partitioner makes a new custom call for the part of each device, without
aliases and side effects, and splits every operand like the first. These two
ways lower the operation again for the part that a device has.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.interpreters import mlir
from jax.interpreters.mlir import LoweringRule, LoweringRuleContext, ir
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Shape
from xla_ffi_kit._jax_hooks import HloSharding, Sharding, XlaShape
from xla_ffi_kit.op import batch_axes, reference_switch
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import Arrays, OpSpec
from xla_ffi_kit.rules import custom_call, partitioning
from xla_ffi_kit.rules.custom_call import HandlerCall, Lowered
from xla_ffi_kit.rules.partitioning import AxisSpec

_TARGET = "xla_ffi_kit.on_each_device"
_Devices: TypeAlias = np.ndarray[Shape, np.dtype[np.int_]]


@dataclasses.dataclass(frozen=True, eq=False)
class _Program:
    """What XLA asks for the program of one device.

    Attributes:
      run: the operation, called with the part of each operand.
      platform: the platform of its lowering.
      lead: the leading shape that operands and results have.
      axes: which of these axes each operand and each result has.
      x64: JAX's setting where the program was lowered. It may be compiled
        elsewhere, as on another thread.
      references: the operations that run their reference there.
    """

    run: Callable[..., Arrays]
    platform: str
    lead: Shape
    axes: Sequence[Sequence[int]]
    x64: bool
    references: frozenset[str]


# By the hash of their text. XLA's callback gets the hash, which is in the call,
# and so in the key of JAX's compilation cache too. A program that is lowered,
# and may be compiled later, keeps the entries of its calls alive.
_programs: weakref.WeakValueDictionary[str, _Program] = (
    weakref.WeakValueDictionary()
)


def split(call: HandlerCall) -> Sequence[ir.Value]:
    """Lowers to a call that XLA splits by asking for one device's program.

    XLA calls back into Python for that, so an exported program cannot contain
    it. Batch axes that their devices do not divide are gathered.
    """
    if call.spec.shared_results:
        return _split_sums(call)
    leads = [
        call.lead[: call.spec.batch_rank(i, x)]
        for i, x in enumerate(call.avals)
    ]
    leads += [call.lead] * len(call.results)
    return _split(call, call.run, leads)


def _split_sums(call: HandlerCall) -> Sequence[ir.Value]:
    """`split` for a call with shared results, such as sums over the rows.

    The rows are so many groups, each with its sums, that every device has the
    same number. The groups are the first axes. XLA splits them, and adds up.
    """
    spec, lead = call.spec, call.lead
    first = lead[: call.depth]
    counts = [math.gcd(n, call.devices) for n in lead[call.depth :]]
    groups = _Groups(first, tuple(counts), lead[call.depth :])

    def in_groups(*operands: jax.Array) -> list[jax.Array]:
        return [
            x[(None,) * len(counts)] if i in spec.shared else groups.divide(x)
            for i, x in enumerate(operands)
        ]

    def added(*results: jax.Array) -> list[jax.Array]:
        return [
            batch_axes.COMBINATIONS[how](y, tuple(range(len(counts))))
            if (how := spec.shared_results.get(i))
            else groups.restore(y)
            for i, y in enumerate(results)
        ]

    run = functools.partial(_of_groups, spec, call.attributes, len(counts))
    ctx, plain = call.ctx, [ShapedArray(a.shape, a.dtype) for a in call.avals]
    operands = _lower_fun(in_groups, ctx, plain, call.operands)
    parts = jax.eval_shape(in_groups, *map(_struct, plain))
    results = jax.eval_shape(run, *parts)
    ctx = ctx.replace(
        avals_in=[ShapedArray(x.shape, x.dtype) for x in parts],
        avals_out=[ShapedArray(x.shape, x.dtype) for x in results],
    )
    split_axes = (*counts, *first)
    leads = [
        split_axes[: len(counts) + spec.batch_rank(i, x)]
        for i, x in enumerate(call.avals)
    ]
    leads += [split_axes] * len(results)
    of_groups = dataclasses.replace(call, ctx=ctx, operands=operands)
    values = _split(of_groups, run, leads)
    return _lower_fun(added, ctx, ctx.avals_out, values)


@dataclasses.dataclass(frozen=True)
class _Groups:
    """How the rows of a call are divided into groups.

    Attributes:
      first: the batch axes that shared operands have.
      counts: the number of groups along each other batch axis.
      rows: the sizes of these axes.
    """

    first: Shape
    counts: Shape
    rows: Shape

    def divide(self, x: jax.Array) -> jax.Array:
        """[first, rows, ...] as [counts, first, rows of a group, ...]."""
        depth, count = len(self.first), len(self.counts)
        pairs = [
            size
            for groups, n in zip(self.counts, self.rows, strict=True)
            for size in (groups, n // groups)
        ]
        x = x.reshape(*x.shape[:depth], *pairs, *x.shape[depth + count :])
        return jnp.moveaxis(x, range(depth, depth + 2 * count, 2), range(count))

    def restore(self, y: jax.Array) -> jax.Array:
        """The inverse of `divide`."""
        depth, count = len(self.first), len(self.counts)
        kernel = y.shape[2 * count + depth :]
        y = jnp.moveaxis(y, range(count), range(depth, depth + 2 * count, 2))
        return y.reshape(*self.first, *self.rows, *kernel)


def _of_groups(
    spec: OpSpec, attributes: AttributeValues, count: int, *parts: jax.Array
) -> Arrays:
    """The operation for each of the groups of rows that a device has."""
    call: Callable[..., Arrays] = functools.partial(
        custom_call.run, spec, attributes
    )
    axes = tuple(None if i in spec.shared else 0 for i in range(len(parts)))
    for _ in range(count):
        call = batch_axes.in_turn(call, axes)
    return call(
        *(
            x.reshape(x.shape[count:]) if i in spec.shared else x
            for i, x in enumerate(parts)
        )
    )


def _lower_fun(
    function: Callable[..., Sequence[jax.Array]],
    ctx: LoweringRuleContext,
    avals: Sequence[ShapedArray],
    operands: Sequence[ir.Value],
) -> Sequence[ir.Value]:
    """The values of a function of JAX."""
    lower = mlir.lower_fun(function, multiple_results=True)
    values = lower(ctx.replace(avals_in=avals, avals_out=None), *operands)
    # Some releases of JAX return the value of each array in a list.
    return [y[0] if isinstance(y, list | tuple) else y for y in values]


def _split(
    call: HandlerCall, run: Callable[..., Arrays], leads: Sequence[Shape]
) -> Sequence[ir.Value]:
    """`split`, for what a device runs and the axes of each array to split."""
    platform = call.platform
    types, results = ([*map(_struct, x)] for x in (call.avals, call.results))
    names, replicated = partitioning.batch_rule(
        leads, [x.shape for x in (*types, *results)]
    )
    lead = max(leads, key=len)
    axes = [
        [axis for axis, name in enumerate(array) if name not in replicated]
        for array in names
    ]
    program = _jax_hooks.module_of(run, types, platform)
    text = f"{platform} {axes} {program}"
    if call.needs_shapes:
        # Two operations may have the same attributes for the whole, and others
        # for a part.
        for parts in _some_parts(types, axes, lead, call.devices):
            text += str(_jax_hooks.module_of(run, parts, platform))
    key = hashlib.sha256(text.encode()).hexdigest()
    x64 = jax.config.jax_enable_x64  # type: ignore[attr-defined]
    references = reference_switch.chosen()
    of_device = _Program(run, platform, lead, axes, x64, references)
    _jax_hooks.keep_alive(call.ctx, _programs.setdefault(key, of_device))
    lowered = _jax_hooks.custom_call(
        _TARGET,
        result_types=[
            ir.RankedTensorType.get(x.shape, mlir.dtype_to_ir_type(x.dtype))
            for x in results
        ],
        operands=call.operands,
        backend_config=key,
        has_side_effect=call.spec.advanced.has_side_effect,
    )
    count = len(types)
    partitioning.set_rule(lowered, names[:count], names[count:], replicated)
    values: Sequence[ir.Value] = lowered.results
    return values


def _some_parts(
    types: Sequence[jax.ShapeDtypeStruct],
    axes: Sequence[Sequence[int]],
    lead: Shape,
    devices: int,
) -> Iterator[list[jax.ShapeDtypeStruct]]:
    """Operands with one batch axis split, by each way to split it evenly."""
    for axis, size in enumerate(lead):
        for pieces in range(2, devices + 1):
            if devices % pieces or size % pieces:
                continue
            yield [
                x.update(
                    shape=tuple(
                        n // pieces if i == axis and i in batch else n
                        for i, n in enumerate(x.shape)
                    )
                )
                for x, batch in zip(types, axes[: len(types)], strict=True)
            ]


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
    program = _programs[key.decode()]
    is_tuple = result.is_tuple()
    arrays = [*shapes, *(result.tuple_shapes() if is_tuple else [result])]
    asked = [*shardings]
    asked += result_sharding.tuple_elements() if is_tuple else [result_sharding]
    count = len(shapes)
    # XLA asks with what the arrays have, which may be another device's rows
    # for each of them, or a part of a kernel axis.
    devices = _devices(program, asked)
    answer = [
        _sharding(x.dimensions(), axes, devices)
        for x, axes in zip(arrays, program.axes, strict=True)
    ]
    with (
        jax.enable_x64(program.x64),
        reference_switch.choose(program.references),
    ):
        parts = [
            jax.ShapeDtypeStruct(sharding.tile(x).dimensions(), x.numpy_dtype())
            for x, sharding in zip(shapes, answer[:count], strict=True)
        ]
        module = _jax_hooks.module_of(program.run, parts, program.platform)
    if is_tuple:
        result_sharding = HloSharding.tuple_sharding(result, answer[count:])
    else:
        (result_sharding,) = answer[count:]
    return mlir.module_to_bytecode(module), answer[:count], result_sharding


def _devices(program: _Program, shardings: Sequence[Sharding]) -> _Devices:
    """Devices by the part of each batch axis that they have.

    Another axis lists those that have the same parts. They are the devices of
    the array that is split most, without the batch axes that would be padded.
    """
    rank = len(program.lead)
    finest = np.zeros((1,) * rank + (1,), int)
    for sharding, axes in zip(shardings, program.axes, strict=True):
        if not sharding.is_tiled() or sharding.subgroup_types():
            continue
        pieces = sharding.tile_assignment_dimensions()
        even = [axis for axis in axes if program.lead[axis] % pieces[axis] == 0]
        others = [axis for axis in range(len(pieces)) if axis not in even]
        shape = [pieces[axis] if axis in even else 1 for axis in range(rank)]
        devices = np.array(sharding.tile_assignment_devices()).reshape(pieces)
        devices = devices.transpose(*even, *others).reshape(*shape, -1)
        if math.prod(shape) > math.prod(finest.shape[:-1]):
            finest = devices
    return finest


def _sharding(shape: Shape, axes: Sequence[int], devices: _Devices) -> Sharding:
    """How an array that has these batch axes is split over `devices`."""
    rank = devices.ndim - 1
    missing = [axis for axis in range(rank) if axis not in axes]
    pieces = [devices.shape[a] if a in axes else 1 for a in range(len(shape))]
    if math.prod(pieces) == 1:
        return HloSharding.replicate()
    devices = devices.transpose(*axes, *missing, rank)
    return _jax_hooks.tiled([*pieces, -1], devices)


_jax_hooks.register_partitioner(_TARGET, _partition)


def in_manual_region(call: HandlerCall, specs: Sequence[AxisSpec]) -> Lowered:
    """Lowers to a `shard_map` over all axes of the mesh that are not in one.

    Args:
      call: the call.
      specs: the mesh axes that its leading axes are sharded over. Over others
        operands are gathered, and each device computes the same.
    """
    mesh = _jax_hooks.mesh_of(call.ctx)
    if mesh.empty:  # JAX tells only the number of devices.
        mesh = AbstractMesh((call.devices,), ("devices",))
    manual = _jax_hooks.manual_axes(call.ctx)
    # JAX gathers operands only if their types have no shardings.
    mesh = mesh.update_axis_types(
        {
            name: AxisType.Manual if name in manual else AxisType.Auto
            for name in mesh.axis_names
        }
    )
    avals = [ShapedArray(a.shape, a.dtype) for a in call.avals]
    depth, shared = call.depth, call.spec.shared_results
    combine: dict[str, Callable[..., jax.Array]] = {
        "sum": jax.lax.psum,
        "max": jax.lax.pmax,
        "min": jax.lax.pmin,
    }

    def spec_of(index: int, shape: Shape) -> PartitionSpec:
        batch = shape[: call.spec.batch_rank(index, avals[index])]
        return PartitionSpec(
            *(
                axis if size == whole else None
                for axis, size, whole in zip(
                    specs, batch, call.lead, strict=False
                )
            )
        )

    named = tuple(jax.tree.leaves(list(specs[depth:])))

    def run(*parts: jax.Array) -> Arrays:
        results = call.run(*parts)
        if not shared or not named:
            return results
        return tuple(
            combine[how](y, named) if (how := shared.get(i)) else y
            for i, y in enumerate(results)
        )

    mapped = jax.shard_map(
        run,
        mesh=mesh,
        in_specs=tuple(spec_of(i, a.shape) for i, a in enumerate(avals)),
        out_specs=tuple(
            PartitionSpec(*(specs[:depth] if i in shared else specs))
            for i in range(len(call.results))
        ),
        axis_names=set(mesh.axis_names) - manual,
        check_vma=False,
    )
    lower: LoweringRule = mlir.lower_fun(mapped, multiple_results=True)
    with jax.sharding.use_abstract_mesh(mesh):
        return lower(call.ctx.replace(avals_in=avals), *call.operands)
