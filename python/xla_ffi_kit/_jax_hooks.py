"""Every private JAX hook the kit uses; nothing else imports `jax._src`.

Checked on jax 0.8.1, 0.9.2, 0.10.2 and 0.12.0 (tests/compat runs the suite on
all four). Each function says why no public hook does.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import jax
import numpy as np
from jax._src import core, dispatch, effects, xla_bridge
from jax._src import custom_partitioning_sharding_rule as sdy_rule
from jax._src.core import Primitive as Primitive
from jax._src.interpreters import mlir as lowering
from jax._src.lib import xla_client  # type: ignore[attr-defined]
from jax._src.lib.mlir.dialects import hlo as hlo  # type: ignore[attr-defined]
from jax.core import ShapedArray
from jax.interpreters.mlir import LoweringRuleContext, ShardingContext, ir
from jax.sharding import AbstractMesh, AxisType

# `Primitive` and `hlo` are public in `jax.extend`, whose import, since jax
# 0.10, takes as long as that of the whole kit: Pallas is in it.


class KitEffect(effects.Effect):
    """Marks an operation that must run although nobody reads its result."""

    def __str__(self) -> str:
        return "xla_ffi_kit"

    def __hash__(self) -> int:
        return hash(KitEffect)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KitEffect)


SIDE_EFFECT = KitEffect()

# There is no public way to add an effect. The first four sets let an operation
# with side effects appear in jit, in control flow, under remat and in functions
# with custom derivatives. By the last one, reverse mode keeps a call of which
# no derivative depends, as in the body of a scan.
for _allowed in (
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
    effects.remat_allowed_effects,
    effects.custom_derivatives_allowed_effects,
    effects.partial_eval_kept_effects,
):
    _allowed.add_type(KitEffect)


def define_eager_call(primitive: Primitive) -> None:
    """Makes `primitive` run eagerly as its own compiled program.

    The public alternative, `def_impl` with `jax.jit`, recurses for ever under
    `jax.disable_jit`.
    """
    dispatch.simple_impl(primitive)


def is_registered(target: str, platform: str) -> bool:
    """Whether XLA knows a custom call target. `jax.ffi` does not tell."""
    return target in xla_client.custom_call_targets(platform)


def registered_stages(target: str, platform: str) -> dict[str, object] | None:
    """The capsules of a target's stages by name; None if XLA does not tell."""
    stages = xla_client.custom_call_targets(platform).get(target)
    if not isinstance(stages, dict) or "execute" not in stages:
        return None
    return {stage: capsule for stage, capsule in stages.items() if capsule}


# Target, capsule or capsules by stage, platform and version of each.
Registration: TypeAlias = tuple[str, object, str, int]


@contextlib.contextmanager
def registrations() -> Iterator[list[Registration]]:
    """Records the targets that packages register meanwhile.

    XLA tells the targets of a platform once its backend has started, and not
    which of them a package has brought.
    """
    register = xla_client.register_custom_call_target
    recorded: list[Registration] = []

    def record(
        name: str,
        fn: object,
        platform: str = "cpu",
        api_version: int = 0,
        **options: object,
    ) -> None:
        recorded.append((name, fn, platform, api_version))
        register(name, fn, platform, api_version, **options)

    xla_client.register_custom_call_target = record
    try:
        yield recorded
    finally:
        xla_client.register_custom_call_target = register


def is_eager() -> bool:
    """Whether no transformation is tracing.

    Public JAX only tells whether one value is traced; an operation of constants
    inside jit has none, and still belongs in the jaxpr.
    """
    return core.trace_state_clean()


def named_axes(effects_of: Iterable[object]) -> frozenset[object]:
    """The axes of `vmap` or a mesh that a jaxpr of these effects names.

    The effect is private. `ppermute` has none.
    """
    return frozenset(
        effect.name
        for effect in effects_of
        if isinstance(effect, core.NamedAxisEffect)
    )


def match_manual_axes(operands: Sequence[jax.Array]) -> Sequence[jax.Array]:
    """Makes the operands vary over the same manual axes inside shard_map.

    The casts it inserts are what sums the gradient of a replicated operand
    over the shards. `jax.lax.pcast` needs to know what an operand varies over,
    and that property has had three names since 0.8.1.
    """
    insert = getattr(core, "auto_insert_reshard", None)
    if insert is None:
        insert = core.standard_insert_pvary  # type: ignore[attr-defined]
    matched: Sequence[jax.Array] = insert(*operands)
    return matched


def bind(
    primitive: Primitive, operands: Sequence[jax.Array], attributes: object
) -> list[jax.Array]:
    """Applies an operation's primitive."""
    if len(operands) > 1:
        operands = match_manual_axes(operands)
    results: list[jax.Array] = primitive.bind(*operands, attributes=attributes)
    return results


def shaped(avals: Sequence[object]) -> Sequence[ShapedArray]:
    """The operands or results of a lowering rule's context, as array types.

    In JAX's annotations, they are only `AbstractValue`.
    """
    return cast(Sequence[ShapedArray], avals)


def platforms(ctx: LoweringRuleContext) -> str:
    """The platforms that a rule lowers for, as a message names them."""
    of_rule = getattr(ctx, "platforms", None)
    return ", ".join(of_rule or ctx.module_context.platforms)


def is_for_export(ctx: LoweringRuleContext) -> bool:
    """Whether a rule lowers a program that another machine may run.

    Public JAX does not tell. A release that no longer says so lowers for the
    machine that it runs on.
    """
    parameters = getattr(ctx.module_context, "lowering_parameters", None)
    return bool(getattr(parameters, "for_export", False))


def mesh_of(ctx: LoweringRuleContext) -> AbstractMesh:
    """The mesh of a lowering rule's operands; an empty one if they have none.

    JAX's annotations do not say that these have shardings.
    """
    for aval in shaped([*ctx.avals_in, *ctx.avals_out]):
        if not aval.sharding.mesh.empty:
            return cast(AbstractMesh, aval.sharding.mesh)
    return AbstractMesh((), ())


def manual_axes(ctx: LoweringRuleContext) -> set[str]:
    """The mesh axes that `shard_map` has split before a rule lowers.

    There is no public way to ask. In jax 0.8, the lowering of a `shard_map` in
    another forgets the outer one's axes, but the operands' types have them.
    """
    axes = set(getattr(ctx.module_context.axis_context, "manual_axes", ()))
    mesh = mesh_of(ctx)
    return axes | {
        name
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == AxisType.Manual
    }


def partition_count(ctx: LoweringRuleContext) -> int:
    """Over how many devices XLA may split the program of a lowering rule.

    JAX's public API does not tell for how many devices a program is lowered,
    nor whether `shard_map` has split it already.
    """
    axes = ctx.module_context.axis_context
    mesh = getattr(axes, "mesh", None)
    if mesh is None:
        return int(getattr(axes, "num_devices", 1))
    manual = manual_axes(ctx)
    return math.prod(n for name, n in mesh.shape.items() if name not in manual)


def xla_may_partition(ctx: LoweringRuleContext) -> bool:
    """Whether XLA may split the program of a lowering rule over devices."""
    return partition_count(ctx) > 1


# jaxlib has no annotations for these two.
XlaShape: TypeAlias = Any
HloSharding: Any = xla_client.HloSharding
Sharding: TypeAlias = Any
# The arguments are the shapes and shardings of the operands, those of the
# result and the call's configuration.
Partition: TypeAlias = Callable[
    [Sequence[XlaShape], Sequence[Sharding], XlaShape, Sharding, bytes],
    tuple[bytes, Sequence[Sharding], Sharding],
]


def register_partitioner(target: str, partition: Partition) -> None:
    """Registers what XLA asks for the program of one device's part of a call.

    The public way, `jax.experimental.custom_partitioning`, drops side effects
    and needs the devices when a program is lowered: one with an abstract mesh,
    or with several meshes, could not contain it.
    """

    def replicated(
        _: Sequence[XlaShape],
        __: Sequence[Sharding],
        result: XlaShape,
        ___: bytes,
    ) -> Sharding:
        whole = HloSharding.replicate()
        if not result.is_tuple():
            return whole
        count = len(result.tuple_shapes())
        return HloSharding.tuple_sharding(result, [whole] * count)

    register = functools.partial(
        xla_client.register_custom_call_partitioner,
        name=target,
        prop_user_sharding=lambda sharding, shape, key: sharding,
        partition=partition,
        # Shardy splits calls by their rule. XLA's older propagation, which asks
        # here, gets an answer by which nothing is split.
        infer_sharding_from_operands=replicated,
        can_side_effecting_have_replicated_sharding=True,
    )
    register()
    xla_bridge.register_plugin_callbacks(register)


def tiled(
    pieces: Sequence[int], devices: np.ndarray[Any, np.dtype[np.int_]]
) -> Sharding:
    """How an array is split into so many pieces of each axis.

    Devices along the last axis, which the array has not, have the same piece.
    Public JAX knows meshes only, and XLA's callback tells of none.
    """
    proto = xla_client.OpSharding()
    proto.type = xla_client.OpSharding.Type.OTHER
    proto.tile_assignment_dimensions = devices.reshape(pieces).shape
    proto.tile_assignment_devices = devices.ravel()
    proto.replicate_on_last_tile_dim = True
    return HloSharding.from_proto(proto)


def module_of(
    function: Callable[..., object],
    types: Sequence[jax.ShapeDtypeStruct],
    platform: str,
) -> ir.Module:
    """A function's program for one device of a platform.

    `jax.jit` lowers for the devices of the mesh around, and for a backend.
    """
    with jax.sharding.use_abstract_mesh(AbstractMesh((), ())):
        return lowering.build_mlir_module_helper(
            jax.make_jaxpr(function)(*types),
            name="xla_ffi_kit",
            platforms=(platform,),
            backend=None,
            axis_context=ShardingContext(1),
        )


def keep_alive(ctx: LoweringRuleContext, value: object) -> None:
    """Keeps a value as long as the program that a rule lowers."""
    ctx.module_context.add_keepalive(value)


custom_call = lowering.custom_call


def sharding_rule(
    rule: str,
    replicated: Sequence[str],
    operand_types: Sequence[ir.Type],
    result_types: Sequence[ir.Type],
) -> ir.Attribute:
    """The `sdy.sharding_rule` attribute of a custom call.

    Public JAX writes it only through `custom_partitioning`, which calls back
    into Python while XLA partitions.
    """
    parsed = sdy_rule.str_to_sdy_sharding_rule(
        rule, need_replication_factors=tuple(replicated)
    )
    return sdy_rule.sdy_sharding_rule_to_mlir(
        parsed, list(operand_types), list(result_types)
    )


def string_attributes(values: dict[str, str]) -> ir.Attribute:
    """An MLIR dictionary of strings; `jax.ffi` offers no other attributes."""
    return ir.DictAttr.get({k: ir.StringAttr.get(v) for k, v in values.items()})


def is_traced(value: object) -> bool:
    """Whether `value` is a tracer, which has no value yet."""
    return isinstance(value, core.Tracer)
