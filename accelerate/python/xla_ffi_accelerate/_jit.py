"""`jax.jit`, typed, and what it takes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

_P = ParamSpec("_P")
_T = TypeVar("_T")


def jit(
    *, static_argnums: Sequence[int] = (), static_argnames: Sequence[str] = ()
) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """A decorator like `jax.jit` that keeps the function's types."""
    return cast(
        Callable[[Callable[_P, _T]], Callable[_P, _T]],
        functools.partial(
            jax.jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
        ),
    )


# A union would be created at every call.
_LEAVES = (jax.Array, np.ndarray, float, int, complex)


def jittable(value: ArrayLike) -> ArrayLike:
    """`value` as `jax.jit` takes it: a list, say, as an array.

    Not everything: an eager call is short, and this would be a third of it.
    """
    return value if isinstance(value, _LEAVES) else jnp.asarray(value)
