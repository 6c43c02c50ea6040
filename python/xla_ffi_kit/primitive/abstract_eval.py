"""Computes the types of an operation's results from those of its operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.primitive import operand_checks, sharding, shared_operands
from xla_ffi_kit.primitive.attribute_values import AttributeValues
from xla_ffi_kit.primitive.spec import OpSpec, Result, flatten

_Type = tuple[Shape, np.dtype[np.generic]]


class Results(NamedTuple):
    """What the function of a spec returns for some operands."""

    types: tuple[jax.ShapeDtypeStruct, ...]
    is_tuple: bool  # an array otherwise
    named_axes: frozenset[object] = frozenset()  # of collectives in it

    def pack(self, values: Sequence[jax.Array]) -> Result:
        """The inverse of `flatten`."""
        return tuple(values) if self.is_tuple else values[0]


class ResultTypes:
    """Shapes and dtypes of an operation's results."""

    def __init__(self, spec: OpSpec) -> None:
        self._spec = spec
        self._cached = functools.lru_cache(maxsize=4096)(self._evaluate)

    def __call__(
        self, operands: Sequence[Typed], attributes: AttributeValues
    ) -> Results:
        """The results for operands that the operation takes, checked."""
        # A reference may make 64-bit results of its own where they are on.
        return self._cached(
            tuple((x.shape, x.dtype) for x in operands),
            attributes,
            jax.config.jax_enable_x64,  # type: ignore[attr-defined]
        )

    def _evaluate(
        self,
        operands: tuple[_Type, ...],
        attributes: AttributeValues,
        x64: bool,
    ) -> Results:
        del x64  # only part of the key
        spec = self._spec
        structs = [jax.ShapeDtypeStruct(*operand) for operand in operands]
        if spec.check is not None:
            spec.check(*structs, **attributes.for_reference)
        if spec.reference is None:
            return self._declared(structs, attributes)
        reference = functools.partial(
            spec.reference, **attributes.for_reference
        )
        try:
            jaxpr, results = jax.make_jaxpr(
                shared_operands.over_batches(spec, reference, structs),
                return_shape=True,
            )(*structs)
        except (TypeError, ValueError) as error:
            given = operand_checks.describe(spec.operand_names, operands)
            raise type(error)(
                f"{spec.name}: the reference does not take operands "
                f"{given}: {error}"
            ) from error
        types = flatten(results)
        if not all(isinstance(t, jax.ShapeDtypeStruct) for t in types):
            raise TypeError(
                f"{spec.name}: results of the reference: expected an array or "
                f"a tuple of arrays, got {jax.tree.structure(results)}"
            )
        named_axes = _jax_hooks.named_axes(jaxpr.effects)
        return Results(types, types is results, named_axes)

    def _declared(
        self,
        operands: Sequence[jax.ShapeDtypeStruct],
        attributes: AttributeValues,
    ) -> Results:
        """Returns what the shape function declares, with the batch axes."""
        spec = self._spec
        assert spec.results is not None
        lead = operand_checks.leading_shape(spec, operands)
        rows = [
            jax.ShapeDtypeStruct(x.shape[spec.own_axes(i, x) :], x.dtype)
            for i, x in enumerate(operands)
        ]
        try:
            declared = spec.results(*rows, **attributes.for_reference)
        except Exception as error:
            types = [(x.shape, x.dtype) for x in rows]
            raise TypeError(
                f"{spec.name}: the shape function does not take operands "
                f"{operand_checks.describe(spec.operand_names, types)}: {error}"
            ) from error
        found = []
        for i, result in enumerate(flatten(declared)):
            if not (hasattr(result, "shape") and hasattr(result, "dtype")):
                expected = "a jax.ShapeDtypeStruct, or a tuple of them"
                raise TypeError(spec.error("results", expected, declared))
            batch = lead
            if i in spec.shared_results:
                batch = lead[: spec.depth(operands)]
            found.append(
                jax.ShapeDtypeStruct((*batch, *result.shape), result.dtype)
            )
        return Results(tuple(found), isinstance(declared, tuple))

    def abstract_eval(
        self, *avals: jax.core.ShapedArray, attributes: AttributeValues
    ) -> tuple[Sequence[jax.core.ShapedArray], set[_jax_hooks.KitEffect]]:
        """The abstract values of the results, with their sharding; effects."""
        spec = self._spec
        lead = operand_checks.leading_shape(spec, avals)
        types = self(avals, attributes).types
        operand_checks.check_results(spec, avals, types, lead)
        effects = {_jax_hooks.SIDE_EFFECT} if spec.has_side_effect else set()
        if not avals:
            shaped = jax.core.ShapedArray
            return [shaped(t.shape, t.dtype) for t in types], effects
        return sharding.result_avals(spec, avals, types, lead), effects
