"""Makes a JAX function with derivatives from a function on the host.

A host function, from NumPy, SciPy or the library itself, takes and returns
NumPy arrays. It replaces the reference of an operation without one. It is
called for one row at a time. Derivatives of any order are finite differences.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op import batch_axes
from xla_ffi_kit.op.spec import Arrays, Result, flatten
from xla_ffi_kit.testing._case import is_inexact, wide_dtype

HostArray: TypeAlias = np.ndarray[Shape, np.dtype[Any]]
HostArrays: TypeAlias = tuple[HostArray, ...]
Host: TypeAlias = Callable[..., ArrayLike | tuple[ArrayLike, ...]]
_Rows: TypeAlias = Callable[..., HostArrays]
_Types: TypeAlias = Sequence[jax.ShapeDtypeStruct]

# Differences of fourth order: the weight of the value so many steps away.
_STENCIL = {-2: 1 / 12, -1: -8 / 12, 1: 8 / 12, 2: -1 / 12}
# The fifth root of the rounding error, roughly, of a host function that
# computes in float64, and of one in float32.
_STEPS = {True: 1e-3, False: 4e-2}
# What these steps are divided by for another look: see `smaller_steps`.
_divisor = 1
SMALLER = 32


@contextlib.contextmanager
def smaller_steps() -> Iterator[None]:
    """Derivatives of host functions are differences over smaller steps here.

    A difference over a kink is wrong; a smaller one is less likely to be over
    one. It rounds more, so that it is not the first choice. XLA calls the host
    function in threads of its own, which is why this holds for all threads.
    """
    global _divisor
    _divisor = SMALLER
    try:
        yield
    finally:
        _divisor = 1


def row_types(operands: Sequence[Typed], op: FfiOp[Result]) -> _Types:
    """The types of operands without their batch axes."""
    return [
        jax.ShapeDtypeStruct(x.shape[op.spec.batch_rank(i, x) :], x.dtype)
        for i, x in enumerate(operands)
    ]


def call(
    op: FfiOp[Result], host: Host, *operands: HostArray, **attributes: object
) -> HostArrays:
    """Calls a host function for one row; returns arrays."""
    returned = host(*op.spec.fill(operands), **attributes)
    return tuple(map(np.asarray, flatten(returned)))


def on_host(op: FfiOp[Result], host: Host) -> Callable[..., Result]:
    """A host function as a JAX function that batches as an operation does.

    Args:
      op: the operation. The function has its batch axes and result types.
      host: `host(*operands, **attributes)` takes the operands of one row,
        without batch axes, as NumPy arrays, and returns an array or a tuple of
        arrays. Derivatives call it with float64 (complex128) instead of other
        floats.

    Returns:
      A function of the operation's operands and attributes, which works under
      jit, vmap, jvp and grad of any order.
    """

    def run(*values: ArrayLike, **attributes: Any) -> Result:
        operands = [jnp.asarray(x) for x in values]
        lead = batch_axes.leading_shape(op.spec, operands)
        operands = [
            x
            if i in op.spec.shared
            else jnp.broadcast_to(
                x, (*lead, *x.shape[op.spec.batch_rank(i, x) :])
            )
            for i, x in enumerate(operands)
        ]
        types = jax.eval_shape(
            functools.partial(op, **attributes), *row_types(operands, op)
        )
        function = _differentiable(
            functools.partial(call, op, host, **attributes),
            op.spec.kernel_axes,
            flatten(types),
        )
        for level in reversed(range(len(lead))):
            axes = tuple(
                None
                if i in op.spec.shared and op.spec.batch_rank(i, x) <= level
                else 0
                for i, x in enumerate(operands)
            )
            function = jax.vmap(function, axes)
        summed = tuple(range(op.spec.depth(operands), len(lead)))
        outs = tuple(
            batch_axes.COMBINATIONS[how](y, summed)
            if (how := op.spec.shared_results.get(i))
            else y
            for i, y in enumerate(function(*operands))
        )
        return outs if isinstance(types, tuple) else outs[0]

    return run


def _differentiable(
    function: _Rows, ranks: Sequence[int], types: _Types
) -> Callable[..., Arrays]:
    """A host function of rows of these ranks, which returns these types."""

    @jax.custom_jvp
    def of_row(*operands: jax.Array) -> Arrays:
        outs: Arrays = jax.pure_callback(
            functools.partial(_over_rows, function, ranks, types),
            tuple(types),
            *operands,
            vmap_method="broadcast_all",
        )
        return outs

    @of_row.defjvp
    def jvp(primals: Arrays, tangents: Arrays) -> tuple[Arrays, Arrays]:
        outs = of_row(*primals)
        slopes = [jnp.zeros(y.shape, y.dtype) for y in outs]
        which = [i for i, y in enumerate(outs) if is_inexact(y)]
        for index, (x, tangent) in enumerate(
            zip(primals, tangents, strict=True)
        ):
            if not is_inexact(x):
                continue
            parts: dict[complex, jax.Array] = {1: tangent}
            if jnp.iscomplexobj(x):  # the function need not be holomorphic
                parts = {1: jnp.real(tangent), 1j: jnp.imag(tangent)}
            for unit, part in parts.items():
                differences = _differentiable(
                    functools.partial(
                        _differences, function, which, index, unit
                    ),
                    ranks,
                    [
                        jax.ShapeDtypeStruct(
                            (*outs[i].shape, *x.shape),
                            wide_dtype(outs[i].dtype),
                        )
                        for i in which
                    ],
                )(*primals)
                for i, matrix in zip(which, differences, strict=True):
                    change = jnp.tensordot(
                        matrix, part.astype(matrix.dtype), x.ndim
                    )
                    slopes[i] = slopes[i] + change.astype(slopes[i].dtype)
        none = jax.dtypes.float0
        return outs, tuple(
            cast(jax.Array, t if is_inexact(t) else np.zeros(t.shape, none))
            for t in slopes
        )

    return of_row


def _over_rows(
    function: _Rows, ranks: Sequence[int], types: _Types, *operands: ArrayLike
) -> HostArrays:
    """The function of each row; all operands have the same batch axes."""
    arrays = [np.asarray(x) for x in operands]
    lead = arrays[0].shape[: arrays[0].ndim - ranks[0]] if arrays else ()
    outs = tuple(np.empty((*lead, *t.shape), t.dtype) for t in types)
    for at in np.ndindex(lead):
        row = function(*(np.asarray(x[at]) for x in arrays))
        for out, value in zip(outs, row, strict=True):
            out[at] = value
    return outs


def _differences(
    function: _Rows,
    which: Sequence[int],
    index: int,
    unit: complex,
    *operands: HostArray,
) -> HostArrays:
    """Returns how results `which` change with each element of one operand.

    The elements are the last axes.
    """
    wide = [
        x.astype(np.complex128 if np.iscomplexobj(x) else np.float64)
        if is_inexact(x)
        else x
        for x in operands
    ]
    x = wide[index]
    base = [function(*wide)[i] for i in which]
    is_double = all(y.dtype in (np.float64, np.complex128) for y in base)
    outs = [np.zeros((*y.shape, *x.shape), y.dtype) for y in base]
    for at in np.ndindex(x.shape):
        step = _STEPS[is_double] / _divisor * max(1.0, float(np.abs(x[at])))
        for steps, weight in _STENCIL.items():
            moved = x.copy()
            moved[at] += steps * step * unit
            row = function(*wide[:index], moved, *wide[index + 1 :])
            for out, i in zip(outs, which, strict=True):
                out[(..., *at)] += weight / step * row[i]
    return tuple(outs)
