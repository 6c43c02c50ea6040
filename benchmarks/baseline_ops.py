"""The contestants that are not the kit's: see benchmarks/baseline."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xla_ffi_kit

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(_FOLDER, "baseline", "baseline.so")
)


def register() -> None:
    """Makes the baseline's handlers known to JAX."""
    xla_ffi_kit.register(_LIBRARY)


def _call(target: str, result: Any, **options: Any) -> Any:
    # As the tutorial does; sequential vmap is never used here.
    return jax.ffi.ffi_call(target, result, **options)


def _like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@jax.custom_vjp
def rms_norm(x: jax.Array) -> jax.Array:
    """The tutorial's operation, with its derivative."""
    return _call("baseline.rms_norm", _like(x))(x, eps=np.float64(1e-6))


def _rms_norm_fwd(x: jax.Array) -> Any:
    real = jnp.finfo(x.dtype).dtype
    scale = jax.ShapeDtypeStruct(
        x.shape[:-1], jnp.promote_types(real, jnp.float32)
    )
    call = _call("baseline.rms_norm_fwd", (_like(x), scale))
    y, scale = call(x, eps=np.float64(1e-6))
    return y, (scale, x)


def _rms_norm_bwd(residuals: Any, ct: jax.Array) -> Any:
    scale, x = residuals
    return (_call("baseline.rms_norm_bwd", _like(x))(scale, x, ct),)


rms_norm.defvjp(_rms_norm_fwd, _rms_norm_bwd)


def modular_add(b: jax.Array, c: jax.Array) -> jax.Array:
    """XLA's own example of a custom call."""
    return _call("baseline.modular_add", _like(c))(b, c)


def relu(x: jax.Array) -> jax.Array:
    """A loop without a branch too many."""
    return _call("baseline.relu", _like(x))(x)


def _copy(huge_pages: bool) -> Any:
    def call(*operands: jax.Array) -> jax.Array:
        *others, last = operands
        return _call("baseline.copy", _like(last))(
            last, *others, huge_pages=huge_pages
        )

    @jax.custom_vjp
    def copy(*operands: jax.Array) -> jax.Array:
        """Moves as many bytes as an operation that reads all operands once.

        The result is a copy of the last operand; the others are only read. So
        does the gradient, which is there for one operand.
        """
        return call(*operands)

    copy.defvjp(
        lambda *operands: (call(*operands), operands),
        lambda operands, ct: (call(*operands, ct),),
    )
    return copy


copy = _copy(huge_pages=False)
copy_to_huge_pages = _copy(huge_pages=True)


def barrier(x: jax.Array) -> jax.Array:
    """x, by an empty call that XLA fuses nothing across."""
    return _call("baseline.empty", _like(x), input_output_aliases={0: 0})(x)


def empty(*operands: jax.Array) -> jax.Array:
    """A call that does nothing, for what a call costs."""
    return _call("baseline.empty", _like(operands[-1]))(*operands)
