"""What JAX's transformations do to an `FfiOp`: jvp, transpose, vmap.

All three follow from the operation's spec. The first-order rules of the author
are used where there are any; every other derivative is the reference's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching

from xla_ffi_kit.op import _shared
from xla_ffi_kit.op._attributes import AttributeValues

if TYPE_CHECKING:
    from xla_ffi_kit.op.ffi_op import FfiOp

Values = Sequence[Any]


def install(op: FfiOp) -> None:
    """Registers the rules of `op`'s primitive with JAX."""
    primitive = op.primitive
    ad.primitive_jvps[primitive] = functools.partial(_jvp, op)
    if op.linear:
        ad.primitive_transposes[primitive] = functools.partial(_transpose, op)
    batching.primitive_batchers[primitive] = functools.partial(_batch, op)


def _is_zero(value: Any) -> bool:
    return isinstance(value, ad.Zero)


def _reference_of(
    op: FfiOp, operands: Values, active: Sequence[int], attributes: Any
) -> Callable[..., Any]:
    """The reference as a function of the `active` operands alone."""

    def call(*values: Any) -> tuple[Any, ...]:
        full = list(operands)
        for i, value in zip(active, values, strict=True):
            full[i] = value
        return _shared.evaluate(op, attributes, *full)

    return call


def _jvp(
    op: FfiOp, primals: Values, tangents: Values, *, attributes: AttributeValues
) -> tuple[Values, Values]:
    active = [i for i, t in enumerate(tangents) if not _is_zero(t)]
    nonlinear = [i for i in active if i not in op.linear]
    if nonlinear and op.jvp is not None:
        return _author_jvp(op, primals, tangents, attributes)

    outs = op.bind(primals, attributes)
    parts: list[Values] = []
    if len(nonlinear) < len(active):
        operands = list(primals)
        for i in op.linear:
            operands[i] = ad.instantiate_zeros(tangents[i])
        parts.append(op.bind(operands, attributes))
    if nonlinear:
        call = _reference_of(op, primals, nonlinear, attributes)
        _, part = jax.jvp(
            call,
            tuple(primals[i] for i in nonlinear),
            tuple(tangents[i] for i in nonlinear),
        )
        parts.append(part)
    return outs, [
        _sum_tangents(out, ts) for out, *ts in zip(outs, *parts, strict=True)
    ]


def _no_tangent(primal: Any) -> ad.Zero:
    return ad.Zero(jax.typeof(primal).to_tangent_aval())


def _sum_tangents(primal: Any, tangents: Values) -> Any:
    if not jnp.issubdtype(primal.dtype, np.inexact):
        return _no_tangent(primal)
    total = tangents[0]
    for tangent in tangents[1:]:
        total = total + tangent
    return total


def _author_jvp(
    op: FfiOp, primals: Values, tangents: Values, attributes: AttributeValues
) -> tuple[Values, Values]:
    full = tuple(
        np.zeros(p.shape, jax.dtypes.float0)
        if _is_zero(t) and not jnp.issubdtype(p.dtype, np.inexact)
        else ad.instantiate_zeros(t)
        for p, t in zip(primals, tangents, strict=True)
    )
    outs, out_tangents = _shared.jvp(op, primals, full, attributes)
    expected = op.result_types(primals, attributes)
    checked = [
        _check_like(op, "jvp: primal result", i, o, e)
        for i, (o, e) in enumerate(zip(outs, expected, strict=True))
    ]
    return checked, [
        _check_like(op, "jvp: tangent result", i, t, o)
        if jnp.issubdtype(o.dtype, np.inexact)
        else _no_tangent(o)
        for i, (t, o) in enumerate(zip(out_tangents, checked, strict=True))
    ]


def _check_like(op: FfiOp, what: str, i: int, got: Any, want: Any) -> Any:
    if got.shape != want.shape or got.dtype != want.dtype:
        raise TypeError(
            f"{op.name}: {what} {i}: expected {want.dtype}{list(want.shape)}, "
            f"got {got.dtype}{list(got.shape)}"
        )
    return got


def _transpose(
    op: FfiOp, cotangents: Values, *operands: Any, attributes: AttributeValues
) -> list[Any]:
    unknown = [i for i, x in enumerate(operands) if ad.is_undefined_primal(x)]
    wrong = [i for i in unknown if i not in op.linear]
    if wrong:
        raise TypeError(
            f"{op.name}: operand {op.operand_names[wrong[0]]}: transposition "
            "asked of an operand that the operation is not linear in"
        )
    result: list[Any] = [None] * len(operands)
    if all(_is_zero(ct) for ct in cotangents):
        for i in unknown:
            result[i] = ad.Zero(operands[i].aval)
        return result
    if op.transpose is not None:
        cts = [None if _is_zero(ct) else ct for ct in cotangents]
        out = _shared.transpose(op, cts, operands, attributes)
        values = dict(zip(op.linear, out, strict=True))
    else:
        cts = [ad.instantiate_zeros(ct) for ct in cotangents]
        # The reference is linear in these, so its derivative at zero is it.
        zeros = [
            ad.instantiate_zeros(ad.Zero(operands[i].aval)) for i in unknown
        ]
        call = _reference_of(op, operands, unknown, attributes)
        _, pull_back = jax.vjp(call, *zeros)
        values = dict(zip(unknown, pull_back(tuple(cts)), strict=True))
    for i in unknown:
        result[i] = _check_like(
            op,
            "transpose: cotangent of operand",
            i,
            values[i],
            operands[i].aval,
        )
    return result


def _batch(
    op: FfiOp,
    operands: Values,
    dims: Sequence[int | None],
    *,
    attributes: AttributeValues,
) -> tuple[Values, list[int | None]]:
    size = next(
        x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None
    )
    if op.vmap_method == "sequential":
        return _batch_sequentially(op, operands, dims, attributes)
    at = _same_batch_axis(op, operands, dims)
    if at is None:
        at = _place_of_new_axis(op, operands, dims)
        missing = 1 if op.vmap_method == "expand_dims" else size
        operands = [
            x
            if d is None and _does_without(op, i, x, at)
            else _with_batch_axis(x, d, missing, at)
            for i, (x, d) in enumerate(zip(operands, dims, strict=True))
        ]
    outs = op.bind(operands, attributes)
    return outs, [at] * len(outs)


def _does_without(op: FfiOp, index: int, operand: Any, at: int) -> bool:
    """Whether an operand may lack the batch axis `at`, being shared."""
    return (
        index in op.shared
        and not op.shared_results  # a sum for each element of that axis
        and _shared.own_axes(op, index, operand) <= at
    )


def _place_of_new_axis(
    op: FfiOp, operands: Values, dims: Sequence[int | None]
) -> int:
    """First, or behind the batch axes of shared operands that lack it."""
    if op.shared_results or any(dims[i] is not None for i in op.shared):
        return 0
    return _shared.depth(op, operands)


def _same_batch_axis(
    op: FfiOp, operands: Values, dims: Sequence[int | None]
) -> int | None:
    """The axis, if it is one that all operands batch over already."""
    known = {d for d in dims if d is not None}
    if len(known) != 1:
        return None
    (at,) = known
    for i, (x, d) in enumerate(zip(operands, dims, strict=True)):
        if d is None and not _does_without(op, i, x, at):
            return None
        if d is not None and at >= x.ndim - op.kernel_axes[i]:
            return None
    return at


def _with_batch_axis(x: Any, dim: int | None, size: int, at: int) -> Any:
    if dim is None:
        x, dim = jax.lax.broadcast(x, (size,)), 0
    return jnp.moveaxis(x, dim, at) if dim != at else x


def _batch_sequentially(
    op: FfiOp,
    operands: Values,
    dims: Sequence[int | None],
    attributes: AttributeValues,
) -> tuple[Values, list[int | None]]:
    axes = {i: d for i, d in enumerate(dims) if d is not None}
    rows = tuple(jnp.moveaxis(operands[i], d, 0) for i, d in axes.items())

    def step(row: tuple[Any, ...]) -> tuple[Any, ...]:
        full = list(operands)
        for i, value in zip(axes, row, strict=True):
            full[i] = value
        return tuple(op.bind(full, attributes))

    outs = jax.lax.map(step, rows)
    return list(outs), [0] * len(outs)
