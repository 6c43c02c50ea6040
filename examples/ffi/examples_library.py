"""The handlers of this folder, registered with JAX; for the tests beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax

import xla_ffi_kit

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "ffi_examples.so")
)

# Types first, then handlers; what this does is in docs/tutorial/ch2_loading.md.
xla_ffi_kit.register(LIBRARY)


def call(name: str, results: Any, **options: Any) -> Callable[..., Any]:
    """`jax.ffi.ffi_call` of one example."""
    return jax.ffi.ffi_call(f"examples.{name}", results, **options)


def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    """The type of a result."""
    return jax.ShapeDtypeStruct(shape, dtype)
