"""The kit's RMS norm in Flax NNX models, in place of `nnx.RMSNorm`.

    model = MyModel(rngs=nnx.Rngs(0))
    use_kit(model)  # every nnx.RMSNorm in it now calls xla_ffi_kit.rms_norm

The layers keep their parameters, names and settings: checkpoints written by
either kind load into the other.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

import xla_ffi_kit


class RMSNorm(nnx.RMSNorm):
    """`nnx.RMSNorm`, computed by the kit where it computes the same thing.

    Masks, other axes than the last and statistics over devices stay Flax's.
    """

    def __call__(
        self, x: jax.Array, mask: jax.Array | None = None
    ) -> jax.Array:
        """Normalizes x over its last axis."""
        axes = (self.reduction_axes, self.feature_axes)
        if mask is not None or self.axis_name or axes != (-1, -1):
            return super().__call__(x, mask)
        scale = self.scale[...] if self.scale is not None else None
        x, scale = self.promote_dtype((x, scale), dtype=self.dtype)
        return xla_ffi_kit.rms_norm(x, scale, eps=self.epsilon)

    def of_sum(
        self, x: jax.Array, residual: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Returns the normalized `x + residual` and the sum, in one pass."""
        axes = (self.reduction_axes, self.feature_axes)
        if self.axis_name or axes != (-1, -1):
            return self(x + residual), x + residual
        scale = self.scale[...] if self.scale is not None else None
        x, residual, scale = self.promote_dtype(
            (x, residual, scale), dtype=self.dtype
        )
        return xla_ffi_kit.rms_norm(
            x, scale, residual=residual, eps=self.epsilon
        )


def use_kit(model: Any) -> int:
    """Makes every `nnx.RMSNorm` of `model` the kit's; how many there were."""
    found = [m for _, m in nnx.iter_modules(model) if type(m) is nnx.RMSNorm]
    for module in found:
        module.__class__ = RMSNorm
    return len(found)


def norm_of_sum(norm: nnx.RMSNorm, x: Any, residual: Any) -> tuple[Any, Any]:
    """The normalized `x + residual` and the sum, by either kind of layer."""
    if isinstance(norm, RMSNorm):
        return norm.of_sum(x, residual)
    return norm(x + residual), x + residual


class Block(nnx.Module):
    """What a pre-norm residual block adds to its input, from its norm."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        self.norm = nnx.RMSNorm(width, rngs=rngs)
        self.up = nnx.Linear(width, 2 * width, rngs=rngs)
        self.down = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, y: jax.Array) -> jax.Array:
        return self.down(nnx.gelu(self.up(y)))


class Model(nnx.Module):
    """Residual blocks and a final norm."""

    def __init__(self, width: int, depth: int, *, rngs: nnx.Rngs) -> None:
        self.blocks = nnx.List([Block(width, rngs=rngs) for _ in range(depth)])
        self.norm = nnx.RMSNorm(width, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        # A block's sum is normalized by what comes next.
        following = [block.norm for block in self.blocks[1:]] + [self.norm]
        y = self.blocks[0].norm(x)
        for block, norm in zip(self.blocks, following, strict=True):
            y, x = norm_of_sum(norm, block(y), x)
        return y


@nnx.jit
def train_step(model: Model, x: jax.Array, target: jax.Array) -> jax.Array:
    """One step of gradient descent, in place; the loss before it."""

    def loss_of(model: Model) -> jax.Array:
        return jnp.mean((model(x) - target) ** 2)

    loss, grads = nnx.value_and_grad(loss_of)(model)
    params = nnx.state(model, nnx.Param)
    nnx.update(model, jax.tree.map(lambda p, g: p - 0.05 * g, params, grads))
    return loss
