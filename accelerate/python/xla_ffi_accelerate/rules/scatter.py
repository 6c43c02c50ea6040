"""Scatters of a few windows, written out in plain HLO.

In a loop that XLA compiles to one function, a scatter makes every operation of
the body a task. JAX makes one of `x.at[i].add(y)`, and of the derivative of
`x[i]`, if there are several indices. Written out, each window is read, combined
and put back, in XLA's order.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import ShapedArray

from xla_ffi_accelerate import _dtypes, _loops
from xla_ffi_accelerate._rule import Reason, Rule, params
from xla_ffi_accelerate.rules import _matrices, small

# In a loop that other operations make tasks of, each window is one more.
_MAX_WINDOWS = 3
# Beyond, XLA copies the operand between two windows.
_MAX_ELEMENTS = 128
_MODES = ("CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS")

Combine = Callable[[jax.Array, jax.Array], jax.Array]


def _covers(
    x: ShapedArray,
    indices: ShapedArray,
    updates: ShapedArray,
    *,
    combined_by: Sequence[str] | None,
    dtypes: frozenset[str],
    dimension_numbers: Any,
    indices_are_sorted: bool,
    mode: object,
    unique_indices: bool,
    update_consts: Sequence[object],
    update_jaxpr: Any,
) -> Reason:
    """Whatever indices promise of themselves, XLA's order is one they allow."""
    if _primitives(update_jaxpr) != combined_by or update_consts:
        return "a function of one's own is applied to the elements"
    if str(x.dtype) not in dtypes:
        return f"it is not written out for {x.dtype}"
    if dimension_numbers.operand_batching_dims:
        return "it is written out without a batch"
    if getattr(mode, "name", None) not in _MODES:
        return f"it is not written out for {mode}"
    windows = indices.shape[:-1]
    if math.prod(windows) == 1:
        return "XLA writes a single window out itself"
    reason = small.unless_up_to(
        _MAX_WINDOWS, windows, "windows"
    ) or small.unless_up_to(_MAX_ELEMENTS, x.shape, "elements")
    if reason is None and not _loops.has_room():
        return 'XLA makes tasks of most loops, unless "loops" is on'
    return reason


def _primitives(jaxpr: Any) -> list[str] | None:
    """What combines an element with its update; None if that replaces it.

    `x.at[i].apply(f)` is a scatter too, with f in place of that.
    """
    return None if jaxpr is None else [e.primitive.name for e in jaxpr.eqns]


def _write_out(
    x: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    combine: Combine,
    dimension_numbers: Any,
    mode: Any,
    **_: object,
) -> jax.Array:
    numbers = dimension_numbers
    window = _window(x.ndim, updates.shape, numbers)
    others = [
        k for k in range(updates.ndim) if k not in numbers.update_window_dims
    ]
    most = [n - size for n, size in zip(x.shape, window, strict=True)]
    for place in itertools.product(*map(range, indices.shape[:-1])):
        update = updates
        for axis, i in zip(others, place, strict=True):
            update = lax.slice_in_dim(update, i, i + 1, axis=axis)
        start = _start(indices, place, x.ndim, numbers)
        inside = [jnp.clip(i, 0, n) for i, n in zip(start, most, strict=True)]
        old = lax.dynamic_slice(x, inside, window)
        new = combine(old, lax.reshape(update, window))
        if mode.name != "CLIP":
            is_inside = functools.reduce(
                lax.bitwise_and, map(lax.eq, start, inside)
            )
            new = lax.select(lax.broadcast(is_inside, window), new, old)
        x = lax.dynamic_update_slice(x, new, inside)
    return x


def _window(rank: int, updates: Sequence[int], numbers: Any) -> list[int]:
    """The shape of what an index moves, with the operand's axes."""
    sizes = iter([updates[k] for k in numbers.update_window_dims])
    return [
        1 if axis in numbers.inserted_window_dims else next(sizes)
        for axis in range(rank)
    ]


def _start(
    indices: jax.Array, place: Sequence[int], rank: int, numbers: Any
) -> list[jax.Array]:
    """The first element of a window, along each of the operand's axes."""
    start = [lax.full((), 0, indices.dtype)] * rank
    for k, axis in enumerate(numbers.scatter_dims_to_operand_dims):
        start[axis] = _matrices.at(indices, *place, k)
    return start


def _rule(
    name: str, combine: Combine, dtypes: Sequence[str], exact: bool = True
) -> Rule:
    combined_by = name.split("_")[1:] or None
    return small.rule(
        f"jax.lax.{name}_p",
        params(
            "dimension_numbers",
            "indices_are_sorted",
            "mode",
            "unique_indices",
            "update_consts",
            "update_jaxpr",
        ),
        functools.partial(
            _covers, combined_by=combined_by, dtypes=frozenset(dtypes)
        ),
        functools.partial(_write_out, combine=combine),
        exact=exact,
        is_cheap=True,
    )


EXACT = [
    _rule("scatter", lambda _, new: new, (*_dtypes.KEPT, *_dtypes.COMPLEX)),
    _rule("scatter_add", lax.add, _dtypes.INTEGERS),
    _rule("scatter_mul", lax.mul, _dtypes.INTEGERS),
    _rule("scatter_min", lax.min, (*_dtypes.INTEGERS, *_dtypes.WIDE)),
    _rule("scatter_max", lax.max, (*_dtypes.INTEGERS, *_dtypes.WIDE)),
]
# LLVM may round a sum once, together with a product that is added.
CLOSE = [
    _rule("scatter_add", lax.add, _dtypes.WIDE, exact=False),
    _rule("scatter_mul", lax.mul, _dtypes.WIDE, exact=False),
]
