"""Computes the types of an operation's results from those of its operands."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import jax
import numpy as np

from xla_ffi_kit import _jax_hooks
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.op import axes, batch_axes, contract
from xla_ffi_kit.op import operands as call_operands
from xla_ffi_kit.op.attribute_values import AttributeValues
from xla_ffi_kit.op.spec import OpSpec, Result, flatten
from xla_ffi_kit.rules import partitioning

_Type = tuple[Shape, np.dtype[np.generic]]


class Results(NamedTuple):
    """What the function of a spec returns for some operands."""

    types: tuple[jax.ShapeDtypeStruct, ...]
    lead: Shape  # the batch axes of operands and results
    is_tuple: bool  # an array otherwise
    named_axes: frozenset[object] = frozenset()  # of collectives in it

    def pack(self, values: Sequence[jax.Array]) -> Result:
        """The inverse of `flatten`."""
        return tuple(values) if self.is_tuple else values[0]


def results(
    spec: OpSpec, operands: Sequence[Typed], attributes: AttributeValues
) -> Results:
    """The results for operands that the operation takes, checked."""
    types = tuple((x.shape, x.dtype) for x in operands)
    return _evaluate(spec, types, attributes)


@functools.lru_cache(maxsize=1 << 14)
def _evaluate(
    spec: OpSpec, operands: tuple[_Type, ...], attributes: AttributeValues
) -> Results:
    # Where 64-bit types are on, a reference may make 64-bit results of 32-bit
    # operands. So the types depend on the setting of the call's trace.
    with jax.enable_x64(attributes.x64):
        return _evaluated(spec, operands, attributes)


def _evaluated(
    spec: OpSpec, operands: tuple[_Type, ...], attributes: AttributeValues
) -> Results:
    structs = [jax.ShapeDtypeStruct(*operand) for operand in operands]
    lead = batch_axes.leading_shape(spec, structs)
    call_operands.check_dtypes(spec, structs)
    axes.check(spec, structs)
    contract.check_values(spec, attributes.items)
    if spec.advanced.check is not None:
        types = structs
        if spec.is_sequential:
            types = batch_axes.row_types(spec, structs)
        spec.advanced.check(*spec.fill(types), **attributes.for_reference)
    if spec.reference is None:
        return _by_shape_function(spec, structs, attributes, lead)
    reference = spec.reference

    def call(*values: jax.Array) -> Result:
        return reference(*spec.fill(values), **attributes.for_reference)

    try:
        jaxpr, returned = jax.make_jaxpr(
            batch_axes.over_batches(spec, call, structs),
            return_shape=True,
        )(*structs)
    except Exception as error:
        _reraise(spec, "reference", structs, error)
    result_types = flatten(returned)
    if not all(isinstance(t, jax.ShapeDtypeStruct) for t in result_types):
        what = "results of the reference"
        expected = "an array or a tuple of arrays"
        got = jax.tree.structure(returned)
        raise TypeError(spec.error(what, expected, got))
    axes.check(spec, structs, result_types)
    named_axes = _jax_hooks.named_axes(jaxpr.effects)
    return Results(result_types, lead, result_types is returned, named_axes)


def _by_shape_function(
    spec: OpSpec,
    operands: Sequence[jax.ShapeDtypeStruct],
    attributes: AttributeValues,
    lead: Shape,
) -> Results:
    """Returns what the shape function declares, with the batch axes."""
    assert spec.results is not None
    rows = [
        jax.ShapeDtypeStruct(x.shape[spec.batch_rank(i, x) :], x.dtype)
        for i, x in enumerate(operands)
    ]
    try:
        declared = spec.results(*spec.fill(rows), **attributes.for_reference)
    except (AttributeError, LookupError) as error:
        # A shape function that asks a shape or a dtype for what it has not.
        _reraise(spec, "shape function", rows, TypeError(str(error)))
    except Exception as error:
        _reraise(spec, "shape function", rows, error)
    types = []
    for i, result in enumerate(flatten(declared)):
        if not (hasattr(result, "shape") and hasattr(result, "dtype")):
            expected = "a jax.ShapeDtypeStruct, or a tuple of them"
            raise TypeError(spec.error("results", expected, declared))
        if any(isinstance(size, int) and size < 0 for size in result.shape):
            got, expected = f"shape {list(result.shape)}", "sizes >= 0"
            raise ValueError(spec.error(f"results: result {i}", expected, got))
        batch = lead
        if i in spec.shared_results:
            batch = lead[: spec.depth(operands)]
        types.append(
            jax.ShapeDtypeStruct((*batch, *result.shape), result.dtype)
        )
    axes.check(spec, operands, types)
    return Results(tuple(types), lead, isinstance(declared, tuple))


def _reraise(
    spec: OpSpec, what: str, operands: Sequence[Typed], error: Exception
) -> NoReturn:
    """Raises the error of a function that does not take operands.

    Its class stays, as JAX's own have other constructors and say more.
    """
    described = call_operands.describe(spec, operands)
    text = f"{spec.name}: the {what} does not take operands {described}"
    if type(error) in (TypeError, ValueError):
        raise type(error)(f"{text}: {error}") from error
    error.add_note(text)
    raise error


def abstract_eval(
    spec: OpSpec, *avals: jax.core.ShapedArray, attributes: AttributeValues
) -> tuple[Sequence[jax.core.ShapedArray], set[_jax_hooks.KitEffect]]:
    """The abstract values of the results, with their sharding; effects."""
    types, lead, *_ = results(spec, avals, attributes)
    call_operands.check_results(spec, avals, types, lead)
    has_effect = spec.advanced.has_side_effect
    effects = {_jax_hooks.SIDE_EFFECT} if has_effect else set()
    if not avals:
        shaped = jax.core.ShapedArray
        return [shaped(t.shape, t.dtype) for t in types], effects
    return partitioning.result_avals(spec, avals, types, lead), effects
