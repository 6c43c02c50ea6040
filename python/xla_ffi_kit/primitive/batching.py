"""Batches an operation under vmap by one call with another batch axis."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Protocol, TypeAlias

import jax
import jax.numpy as jnp
from jax.interpreters import batching

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Typed
from xla_ffi_kit._jax_hooks import Primitive
from xla_ffi_kit.primitive import fallback, shared_operands
from xla_ffi_kit.primitive.abstract_eval import ResultTypes
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.spec import Arrays, OpSpec

Values: TypeAlias = Sequence[jax.Array]
Dims: TypeAlias = Sequence[int | None]


class Axis(Protocol):
    """What JAX tells of the axis that `vmap` maps."""

    name: object
    size: int


class Batching:
    """The rule of one operation's primitive."""

    def __init__(
        self, spec: OpSpec, primitive: Primitive, types: ResultTypes
    ) -> None:
        self._spec = spec
        self._primitive = primitive
        self._types = types

    def install(self) -> None:
        """Registers the rule with JAX."""
        # Those in `primitive_batchers` are not told the axis.
        rules = batching.fancy_primitive_batchers
        rules[self._primitive] = self._batch

    def _batch(
        self,
        axis: Axis,
        operands: Values,
        dims: Dims,
        *,
        attributes: AttributeValues,
    ) -> tuple[Values, Dims]:
        # A derivative with respect to a Python number brings the number.
        operands = [jnp.asarray(x) for x in operands]
        rows = [_row_type(x, d) for x, d in zip(operands, dims, strict=True)]
        if axis.name in self._types(rows, attributes).named_axes:
            if attributes.insists:
                why = f"it has a collective over the axis {axis.name} of vmap"
                fallback.refuse(self._spec, "every platform", why)
            return self._batch_reference(axis, operands, dims, attributes)
        if all(d is None for d in dims):
            outs = _jax_hooks.bind(self._primitive, operands, attributes)
            return outs, [None] * len(outs)
        if self._spec.vmap_method == "sequential" or (
            # Nothing else runs shared operands with batch axes.
            (self._spec.partitioned is None or self._spec.has_side_effect)
            and not self._spec.batches_shared
            and any(dims[i] is not None for i in self._spec.shared)
        ):
            return self._batch_sequentially(operands, dims, attributes)
        at = self._same_batch_axis(operands, dims)
        if at is None:
            at = self._place_of_new_axis(operands, dims)
            size = next(
                x.shape[d]
                for x, d in zip(operands, dims, strict=True)
                if d is not None
            )
            missing = 1 if self._spec.vmap_method == "expand_dims" else size
            operands = [
                x
                if d is None and self._does_without(i, x, at)
                else _with_batch_axis(x, d, missing, at)
                for i, (x, d) in enumerate(zip(operands, dims, strict=True))
            ]
        outs = _jax_hooks.bind(self._primitive, operands, attributes)
        return outs, [at] * len(outs)

    def _batch_reference(
        self,
        axis: Axis,
        operands: Values,
        dims: Dims,
        attributes: AttributeValues,
    ) -> tuple[Values, Dims]:
        """Runs the reference, which has a collective over the mapped axis.

        A handler sees rows, and not which of them belong together.
        """
        call = jax.vmap(
            functools.partial(
                shared_operands.in_jax,
                self._spec,
                self._spec.reference,
                attributes,
            ),
            tuple(dims),
            axis_name=axis.name,
            axis_size=axis.size,
        )
        outs = call(*operands)
        return outs, [0] * len(outs)

    def _does_without(self, index: int, operand: Typed, at: int) -> bool:
        """Whether an operand may lack the batch axis `at`, being shared."""
        return (
            index in self._spec.shared
            # These are a sum for each element of that axis.
            and not self._spec.shared_results
            and self._spec.own_axes(index, operand) <= at
        )

    def _place_of_new_axis(self, operands: Values, dims: Dims) -> int:
        """Returns 0, or the place after the batch axes of shared operands."""
        spec = self._spec
        if spec.shared_results or any(dims[i] is not None for i in spec.shared):
            return 0
        return spec.depth(operands)

    def _same_batch_axis(self, operands: Values, dims: Dims) -> int | None:
        """The axis, if it is one that all operands batch over already."""
        known = {d for d in dims if d is not None}
        if len(known) != 1:
            return None
        (at,) = known
        for i, (x, d) in enumerate(zip(operands, dims, strict=True)):
            if d is None and not self._does_without(i, x, at):
                return None
            if d is not None and at >= self._spec.own_axes(i, x):
                return None
        return at

    def _batch_sequentially(
        self, operands: Values, dims: Dims, attributes: AttributeValues
    ) -> tuple[Values, Dims]:
        axes = {i: d for i, d in enumerate(dims) if d is not None}
        rows = tuple(jnp.moveaxis(operands[i], d, 0) for i, d in axes.items())

        def step(row: Arrays) -> Arrays:
            full = list(operands)
            for i, value in zip(axes, row, strict=True):
                full[i] = value
            return tuple(_jax_hooks.bind(self._primitive, full, attributes))

        outs = jax.lax.map(step, rows)
        return list(outs), [0] * len(outs)


def _row_type(x: jax.Array, dim: int | None) -> jax.ShapeDtypeStruct:
    shape = tuple(n for axis, n in enumerate(x.shape) if axis != dim)
    return jax.ShapeDtypeStruct(shape, x.dtype)


def _with_batch_axis(
    x: jax.Array, dim: int | None, size: int, at: int
) -> jax.Array:
    if dim is None:
        x, dim = jax.lax.broadcast(x, (size,)), 0
    return jnp.moveaxis(x, dim, at) if dim != at else x
