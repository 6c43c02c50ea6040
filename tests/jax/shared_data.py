"""What the tests of shared operands compute and compare."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xla_ffi_kit import rms_norm

NAME = "xla_ffi_kit.rms_norm"  # of the handler


def data(*shape: int, seed: int = 0) -> jax.Array:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.normal(size=shape), np.float32)


def assert_close(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    leaves = zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True)
    for a, b in leaves:
        scale = max(1, np.max(np.abs(b), initial=0))
        np.testing.assert_allclose(a, b, atol=tolerance * scale)


def fused(x: jax.Array, w: jax.Array, r: jax.Array) -> jax.Array:
    y, total = rms_norm(x, w, residual=r)
    return y * total


def loss(x: jax.Array, w: jax.Array, r: jax.Array) -> jax.Array:
    return jnp.sum(fused(x, w, r) ** 2)


def program(function: Any, *args: Any) -> str:
    """The compiled program, as text."""
    return jax.jit(function).lower(*args).compile().as_text()


def targets(function: Any, *args: Any) -> dict[str, int]:
    """How often a program calls each of the kit's handlers."""
    names = [
        part.split('"')[0]
        for part in program(function, *args).split('custom_call_target="')[1:]
    ]
    return {n: names.count(n) for n in names if n.startswith("xla_ffi_kit")}
