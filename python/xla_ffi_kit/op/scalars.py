"""Reads operands: Python's numbers have the dtype that the operation takes.

As in JAX, whose weak types these are: `jnp.float32(1) + 2.0` is a float32 also
where 64-bit types are on.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from xla_ffi_kit import _check, _dtypes
from xla_ffi_kit.op.spec import OpSpec


def arrays(spec: OpSpec, operands: Sequence[ArrayLike]) -> list[jax.Array]:
    """The operands of a call as arrays.

    Raises:
      TypeError: one is no array.
      ValueError: the dtype cannot hold a Python number.
    """
    return [
        _number(spec, name, x, dtype)
        if type(x) in (int, float) and dtype is not None
        else _check.array(spec.name, name, x)
        for name, x, dtype in zip(
            spec.operand_names, operands, spec.only_dtypes, strict=True
        )
    ]


def strengthened(
    spec: OpSpec, operands: Sequence[jax.Array]
) -> list[jax.Array]:
    """The same arrays, but those of weak types with the operation's dtype.

    A traced Python number, as in `jax.grad(op)(2.0)`, is such an array.
    """
    return [
        jax.lax.convert_element_type(x, dtype)
        if dtype is not None
        and x.dtype != dtype
        and jax.typeof(x).weak_type
        and _takes(x, dtype)
        else x
        for x, dtype in zip(operands, spec.only_dtypes, strict=True)
    ]


def _takes(x: ArrayLike, dtype: np.dtype[np.generic]) -> bool:
    """Whether JAX would compute with x in this dtype: no float as an int."""
    if _dtypes.remedy((dtype.name,)):  # else JAX warns, beside our error
        return False
    return bool(jnp.result_type(x, dtype) == dtype)


def _number(
    spec: OpSpec, name: str, x: ArrayLike, dtype: np.dtype[np.generic]
) -> jax.Array:
    try:
        if _takes(x, dtype):
            return jnp.asarray(x, dtype)
    except OverflowError:
        expected = f"a number that {dtype} has"
        message = spec.error(f"operand {name}", expected, x)
        raise ValueError(message) from None
    return _check.array(spec.name, name, x)
