"""`jax.jit`, typed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar, cast

import jax

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
