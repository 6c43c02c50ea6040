"""Checks arguments before anything is traced or compiled.

Every message names the operation, the argument, the expected and the actual
value.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_kit import _jax_hooks

T = TypeVar("T")
Shape: TypeAlias = tuple[int, ...]  # in an export, sizes may be symbolic


class Typed(Protocol):
    """A value with a shape and a dtype: an array, tracer or abstract value."""

    @property
    def shape(self) -> Shape:
        """The size of each axis."""

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The type of the elements."""


def is_static(*shapes: Shape) -> bool:
    """Whether every size is known; symbolic sizes are not."""
    return all(isinstance(size, int) for shape in shapes for size in shape)


def is_inexact(x: Typed) -> bool:
    """Whether an array may have a tangent other than zero: it has floats."""
    return jnp.issubdtype(x.dtype, np.inexact)


def array(op: str, name: str, value: ArrayLike) -> jax.Array:
    """Returns `value` as a JAX array; TypeError if that is impossible."""
    if _jax_hooks.is_traced(value):
        # A tracer may stand for a value of a user's own type, or a Ref.
        kind = jax.typeof(value)
        if isinstance(kind, jax.core.ShapedArray):
            return cast(jax.Array, value)
        got = f"a value of type {type(kind).__name__}; pass the arrays in it"
    elif isinstance(value, jax.Array):
        return value
    else:
        with contextlib.suppress(TypeError, ValueError):
            return jnp.asarray(value)
        got = f"{value!r} ({type(value).__name__})"
    if isinstance(value, jax.Ref):
        got = "a Ref; pass what it holds, ref[...]"
    raise TypeError(f"{op}: operand {name}: expected an array, got {got}")


def dtype(op: str, name: str, x: Typed, allowed: Sequence[str]) -> None:
    if x.dtype.name not in allowed:
        raise TypeError(
            f"{op}: operand {name}: expected dtype {', '.join(allowed)}, got "
            f"{x.dtype.name}"
        )


def same_dtype(op: str, name: str, x: Typed, other: str, y: Typed) -> None:
    if x.dtype != y.dtype:
        raise TypeError(
            f"{op}: operand {name}: expected dtype {y.dtype.name} as operand "
            f"{other} has, got {x.dtype.name}"
        )


def shape(op: str, name: str, x: Typed, expected: Sequence[int]) -> None:
    if tuple(x.shape) != tuple(expected):
        raise ValueError(
            f"{op}: operand {name}: expected shape {list(expected)}, got "
            f"{list(x.shape)}"
        )


def sequence(where: str, value: Iterable[T]) -> tuple[T, ...]:
    """Returns `value` as a tuple; TypeError for a string or a single value."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{where}: expected a sequence, got {value!r}")
    return tuple(value)


def min_rank(op: str, name: str, x: Typed, rank: int) -> None:
    if len(x.shape) < rank:
        raise ValueError(
            f"{op}: operand {name}: expected rank >= {rank}, got rank "
            f"{len(x.shape)}"
        )


def non_empty_axis(op: str, name: str, x: Typed, axis: int) -> None:
    size = x.shape[axis]
    if isinstance(size, int) and size == 0:
        raise ValueError(
            f"{op}: operand {name}: expected axis {axis} of size >= 1, got 0 "
            f"(shape {list(x.shape)})"
        )


def non_negative_number(op: str, name: str, value: object) -> float:
    """Returns a static, finite number >= 0 as a float."""
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
