"""A case of `check_op`: the operands and attributes of one call."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_kit import _dtypes
from xla_ffi_kit._check import Shape, Typed
from xla_ffi_kit.ffi_op import FfiOp
from xla_ffi_kit.op.spec import Result

_T = TypeVar("_T")
# So many values of an array a text shows.
_MANY = 1000
_OPERAND = re.compile(r"(\w+)\[([\d,\s]*)\]")


class Case:
    """The operands, by type or value, and the attributes of one call.

    Args:
      *operands: arrays, or types such as "float32[3,17]". A type stands for
        reproducible random values: normal floats, integers from -9 to 9, or 0
        to 18 if they are unsigned. None stands for an operand that is left out.
      **attributes: the call's attributes.
    """

    def __init__(
        self, *operands: str | ArrayLike | None, **attributes: Any
    ) -> None:
        for operand in operands:
            if isinstance(operand, str):
                _parse(operand)
        self.given = operands
        self.attributes = attributes

    def __repr__(self) -> str:
        parts = [
            repr(x)
            if x is None or isinstance(x, str)
            else _array(np.asarray(x))
            for x in self.given
        ]
        parts += [f"{k}={v!r}" for k, v in self.attributes.items()]
        return f"Case({', '.join(parts)})"

    def operands(self, seed: int = 0) -> tuple[jax.Array, ...]:
        """The operands of the call; those given by type depend on `seed`."""
        rng = np.random.default_rng(seed)
        return tuple(_make(x, rng) for x in self.given if x is not None)

    def batched(
        self, in_axes: Sequence[int | None], size: int = 3
    ) -> tuple[jax.Array, ...]:
        """Operands with a new axis of `size` different rows at `in_axes`."""
        rows = [self.operands(seed) for seed in range(size)]
        # NumPy's stack: JAX's would be compiled for each number of operands.
        return tuple(
            rows[0][i]
            if axis is None
            else jnp.asarray(np.stack([row[i] for row in rows], axis))
            for i, axis in enumerate(in_axes)
        )


def _array(x: np.ndarray[Shape, np.dtype[np.generic]]) -> str:
    """An array as Python, with `...` in place of many values."""
    dtype = x.dtype.name
    if not x.size:
        return f"np.zeros({x.shape}, {dtype!r})"
    if x.size > _MANY:
        return f"np.reshape(..., {x.shape}).astype({dtype!r})"
    values = np.array2string(
        x, separator=", ", threshold=x.size, floatmode="unique"
    )
    return f"np.array({' '.join(values.split())}, {dtype!r})"


def _parse(operand: str) -> tuple[np.dtype[np.generic], tuple[int, ...]]:
    """The dtype and the shape of a type such as "float32[3,17]"."""
    match = _OPERAND.fullmatch(operand)
    if match is None:
        raise ValueError(
            f"Case: operand: expected a type like 'float32[3,17]', got "
            f"{operand!r}"
        )
    dtype = np.dtype(_dtypes.parse("Case: operand", match[1]))
    return dtype, tuple(int(n) for n in match[2].split(",") if n.strip())


def _make(operand: str | ArrayLike, rng: np.random.Generator) -> jax.Array:
    if not isinstance(operand, str):
        return jnp.array(operand)  # a copy, which a program may donate
    dtype, shape = _parse(operand)
    if not jnp.issubdtype(dtype, np.inexact):
        low, high = 0, 1
        if dtype.kind != "b":
            about = jnp.iinfo(dtype)
            low = max(about.min, -9)
            high = min(about.max, low + 18)
        return jnp.asarray(rng.integers(low, high + 1, shape), dtype)
    values = rng.normal(size=shape)
    if jnp.issubdtype(dtype, np.complexfloating):
        values = values + 1j * rng.normal(size=shape)
    array = jnp.asarray(values, dtype)
    if array.dtype != dtype:
        raise ValueError(
            f"Case: operand: {operand!r} needs 64-bit types; set "
            "jax_enable_x64 before the first array"
        )
    return array


def call_axes(op: FfiOp[Result]) -> tuple[int | None, ...]:
    """Returns the batch axes of a call's operands; shared ones have none."""
    count = len(op.spec.operand_names)
    return tuple(None if i in op.spec.shared else 0 for i in range(count))


def is_inexact(x: Typed) -> bool:
    """Whether an array has a derivative: floats and complex numbers."""
    return jnp.issubdtype(x.dtype, np.inexact)


def differentiable(
    f: Callable[..., _T], operands: Sequence[jax.Array]
) -> tuple[Callable[..., _T], tuple[jax.Array, ...]]:
    """`f` as a function of only its floating-point operands, and those."""
    which = [i for i, x in enumerate(operands) if is_inexact(x)]

    def g(*values: jax.Array) -> _T:
        full = list(operands)
        for i, value in zip(which, values, strict=True):
            full[i] = value
        return f(*full)

    return g, tuple(operands[i] for i in which)


def wide_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The dtype itself, or float32 for a float of fewer bits."""
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def scalar(results: object) -> jax.Array:
    """Scalar test loss, nonlinear in every element: second derivatives too."""
    parts = []
    for x in jax.tree.leaves(results):
        if not is_inexact(x):
            continue
        wide = x.astype(wide_dtype(x.dtype))
        part = wide * (1 + wide)
        if jnp.iscomplexobj(wide):
            part = jnp.real(part) + jnp.imag(wide)
        weight = np.cos(np.arange(x.size)).reshape(x.shape)
        parts.append(jnp.sum(weight.astype(part.dtype) * part))
    if not parts:
        return jnp.zeros((), jnp.float32)
    # Nothing is promoted, which jax_numpy_dtype_promotion may forbid.
    widest = max((part.dtype for part in parts), key=lambda t: t.itemsize)
    return functools.reduce(jnp.add, [part.astype(widest) for part in parts])
