"""Checks of what a caller passes, before anything is traced or compiled.

Every message names the operation, the argument, what was expected and what
came.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import _jax_hooks

# Not as a union, which would be made at every call.
_LEAVES = (jax.Array, np.ndarray, float, int, complex)


def is_static(*shapes: Sequence[Any]) -> bool:
    """Whether every size is known, as a symbolic one is not."""
    return all(isinstance(size, int) for shape in shapes for size in shape)


def jittable(value: Any) -> Any:
    """`value` as `jax.jit` takes it: a list, say, as an array.

    Not everything: an eager call is short, and this would be a third of it.
    """
    return value if isinstance(value, _LEAVES) else jnp.asarray(value)


def array(op: str, name: str, value: Any) -> jax.Array:
    """`value` as a JAX array; TypeError if it is none."""
    if isinstance(value, jax.Array):
        return value
    try:
        return jnp.asarray(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"{op}: operand {name}: expected an array, got {value!r} "
            f"({type(value).__name__})"
        ) from None


def dtype(op: str, name: str, x: jax.Array, allowed: Sequence[str]) -> None:
    if x.dtype.name not in allowed:
        raise TypeError(
            f"{op}: operand {name}: expected dtype {', '.join(allowed)}, got "
            f"{x.dtype.name}"
        )


def same_dtype(
    op: str, name: str, x: jax.Array, other: str, y: jax.Array
) -> None:
    if x.dtype != y.dtype:
        raise TypeError(
            f"{op}: operand {name}: expected dtype {y.dtype.name} as operand "
            f"{other} has, got {x.dtype.name}"
        )


def shape(op: str, name: str, x: jax.Array, expected: Sequence[Any]) -> None:
    if tuple(x.shape) != tuple(expected):
        raise ValueError(
            f"{op}: operand {name}: expected shape {list(expected)}, got "
            f"{list(x.shape)}"
        )


def min_rank(op: str, name: str, x: jax.Array, rank: int) -> None:
    if x.ndim < rank:
        raise ValueError(
            f"{op}: operand {name}: expected rank >= {rank}, got rank {x.ndim}"
        )


def non_empty_axis(op: str, name: str, x: jax.Array, axis: int) -> None:
    size = x.shape[axis]
    if isinstance(size, int) and size == 0:
        raise ValueError(
            f"{op}: operand {name}: expected axis {axis} of size >= 1, got 0 "
            f"(shape {list(x.shape)})"
        )


def non_negative_number(op: str, name: str, value: Any) -> float:
    """A static, finite number >= 0 as a float."""
    expected = "a finite number >= 0"
    if _jax_hooks.is_traced(value):
        raise TypeError(
            f"{op}: argument {name}: expected a static number, got a traced "
            "one; pass it as a Python number (jit: static_argnames)"
        )
    number = (int, float, np.integer, np.floating)
    if isinstance(value, bool) or not isinstance(value, number):
        raise TypeError(
            f"{op}: argument {name}: expected {expected}, got {value!r} "
            f"({type(value).__name__})"
        )
    if not math.isfinite(value) or value < 0:
        raise ValueError(
            f"{op}: argument {name}: expected {expected}, got {value!r}"
        )
    return float(value)
