"""Batches an operation under vmap by one call with another batch axis."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit.op import batch_axes, implementation
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import OpSpec
from xla_ffi_kit.rules import abstract_eval, partitioning

Values: TypeAlias = Sequence[jax.Array]
Dims: TypeAlias = Sequence[int | None]


class Axis(Protocol):
    """What JAX tells of the axis that `vmap` maps."""

    name: object
    size: int


def batch(
    spec: OpSpec,
    axis: Axis,
    operands: Values,
    dims: Dims,
    *,
    attributes: AttributeValues,
) -> tuple[Values, Dims]:
    """The rule of an operation's primitive."""
    # In `vmap` of `jax.grad(op)(2.0, y)`, JAX passes the Python number itself.
    operands = [jnp.asarray(x) for x in operands]
    rows = [_row_type(x, d) for x, d in zip(operands, dims, strict=True)]
    results = abstract_eval.results(spec, rows, attributes)
    if axis.name in results.named_axes:
        if attributes.insists:
            why = f"it has a collective over the axis {axis.name} of vmap"
            implementation.refuse(spec, "every platform", why)
        return _batch_reference(spec, axis, operands, dims, attributes)
    if all(d is None for d in dims):
        outs = _jax_hooks.bind(spec.primitive, operands, attributes)
        return outs, [None] * len(outs)
    if spec.vmap_loops:
        return _in_turn(spec, operands, dims, attributes)
    if _are_columns(spec, operands, dims):
        return _as_columns(spec, axis.size, operands, dims, attributes)
    at = _same_batch_axis(spec, operands, dims)
    if at is None:
        at = _place_of_new_axis(spec, operands, dims)
        operands = _with_batch_axes(spec, operands, dims, at, axis.size)
    outs = _jax_hooks.bind(spec.primitive, operands, attributes)
    return outs, [at] * len(outs)


def _batch_reference(
    spec: OpSpec,
    axis: Axis,
    operands: Values,
    dims: Dims,
    attributes: AttributeValues,
) -> tuple[Values, Dims]:
    """Runs the reference, which has a collective over the mapped axis.

    A handler sees rows, and not which of them belong together.
    """
    assert spec.reference is not None
    call = jax.vmap(
        functools.partial(batch_axes.in_jax, spec, spec.reference, attributes),
        tuple(dims),
        axis_name=axis.name,
        axis_size=axis.size,
    )
    outs = call(*operands)
    return outs, [0] * len(outs)


def _in_turn(
    spec: OpSpec,
    operands: Values,
    dims: Dims,
    attributes: AttributeValues,
) -> tuple[Values, Dims]:
    """A call for each element, with shared results of its own."""
    for x, d, name in zip(operands, dims, spec.operand_names, strict=True):
        over = None if d is None else partitioning.specs_of(jax.typeof(x))[d]
        if over is not None:
            expected = (
                "an axis that is not sharded, as each of its elements is a "
                "call with shared results of its own"
            )
            got = f"one over {over!r}; vmap it inside of a jax.shard_map"
            raise ValueError(spec.error(f"vmap: operand {name}", expected, got))

    def call(*values: jax.Array) -> Values:
        return tuple(_jax_hooks.bind(spec.primitive, values, attributes))

    axes = tuple(None if d is None else 0 for d in dims)
    outs = batch_axes.in_turn(call, axes)(
        *(
            x if d is None else jnp.moveaxis(x, d, 0)
            for x, d in zip(operands, dims, strict=True)
        )
    )
    return outs, [0] * len(outs)


def _are_columns(spec: OpSpec, operands: Values, dims: Dims) -> bool:
    """Whether `vmap` only adds elements of the axis `columns`."""
    columns = spec.advanced.columns
    if columns is None or spec.shared_results:
        return False
    return all(
        d is None
        or (
            columns in operand.letters
            # An axis that is sharded stays so as a batch axis.
            and partitioning.specs_of(jax.typeof(x))[d] is None
        )
        for operand, x, d in zip(spec.operands, operands, dims, strict=True)
    )


def _as_columns(
    spec: OpSpec,
    size: int,
    operands: Values,
    dims: Dims,
    attributes: AttributeValues,
) -> tuple[Values, Dims]:
    """A call with longer axes `columns`, where those of `vmap` come first."""
    columns, letters = spec.advanced.columns, spec.result_letters
    assert columns is not None and letters is not None  # declare.py
    values = list(operands)
    for i, (operand, d) in enumerate(zip(spec.operands, dims, strict=True)):
        if columns in operand.letters:
            from_end = len(operand.letters) - operand.letters.index(columns)
            at = values[i].ndim + (d is None) - from_end - 1
            x = _with_batch_axis(values[i], d, at, size, None)
            values[i] = x.reshape(
                *x.shape[:at], size * x.shape[at + 1], *x.shape[at + 2 :]
            )
    outs = list(_jax_hooks.bind(spec.primitive, values, attributes))
    places = []
    for i, y in enumerate(outs):
        own = letters[min(i, len(letters) - 1)]
        at = y.ndim - len(own) + own.index(columns)
        outs[i] = y.reshape(
            *y.shape[:at], size, y.shape[at] // size, *y.shape[at + 1 :]
        )
        places.append(at)
    return outs, places


def _does_without(spec: OpSpec, index: int, operand: Typed, at: int) -> bool:
    """Whether an operand may lack the batch axis `at`, being shared."""
    return (
        index in spec.shared
        # With a batch axis, they are a sum for each element of it.
        and not spec.shared_results
        and spec.batch_rank(index, operand) <= at
    )


def _place_of_new_axis(spec: OpSpec, operands: Values, dims: Dims) -> int:
    """Returns 0, or the place after the batch axes of shared operands."""
    if spec.is_sequential or _is_of_shared(spec, dims):
        return 0
    return spec.depth(operands)


def _is_of_shared(spec: OpSpec, dims: Dims) -> bool:
    """Whether shared operands or results have the new axis."""
    return bool(spec.shared_results) or any(
        dims[i] is not None for i in spec.shared
    )


def _same_batch_axis(spec: OpSpec, operands: Values, dims: Dims) -> int | None:
    """The axis, if it is one that all operands batch over already."""
    mapped = {d for d in dims if d is not None}
    if len(mapped) != 1:
        return None
    (at,) = mapped
    for i, (x, d) in enumerate(zip(operands, dims, strict=True)):
        if d is None and not _does_without(spec, i, x, at):
            return None
        if d is not None and at >= spec.batch_rank(i, x):
            return None
    return at


def _with_batch_axes(
    spec: OpSpec, operands: Values, dims: Dims, at: int, size: int
) -> Values:
    is_one = (
        spec.advanced.vmap_method != "broadcast_all"
        # The axis is one that a loop goes over: nothing has to be repeated.
        or (spec.loops and _is_of_shared(spec, dims))
    )
    # An operand in whose memory a result is has to be as large as the result.
    whole = {*spec.shared, *spec.input_output_aliases}
    over = _sharding_of_axis(operands, dims)
    return [
        x
        if d is None and _does_without(spec, i, x, at)
        else _with_batch_axis(x, d, at, 1, None)
        if is_one and i not in whole
        else _with_batch_axis(x, d, at, size, over)
        for i, (x, d) in enumerate(zip(operands, dims, strict=True))
    ]


def _row_type(x: jax.Array, dim: int | None) -> jax.ShapeDtypeStruct:
    shape = tuple(n for axis, n in enumerate(x.shape) if axis != dim)
    return jax.ShapeDtypeStruct(shape, x.dtype)


def _sharding_of_axis(operands: Values, dims: Dims) -> NamedSharding | None:
    """How an Explicit mesh shards the axis that `vmap` maps, if it does."""
    pairs = zip(operands, dims, strict=True)
    x, dim = next((x, d) for x, d in pairs if d is not None)
    aval = jax.typeof(x)
    over = partitioning.specs_of(aval)[dim]
    if over is None:
        return None
    return NamedSharding(aval.sharding.mesh, PartitionSpec(over))


def _with_batch_axis(
    x: jax.Array,
    dim: int | None,
    at: int,
    size: int,
    over: NamedSharding | None,
) -> jax.Array:
    """`x` with the mapped axis at `at`; by default, one sharded like `over`."""
    if dim is None:
        sharding = None
        if over is not None:
            axes = (*over.spec, *partitioning.specs_of(jax.typeof(x)))
            sharding = NamedSharding(over.mesh, PartitionSpec(*axes))
        x, dim = jax.lax.broadcast(x, (size,), out_sharding=sharding), 0
    return jnp.moveaxis(x, dim, at) if dim != at else x
