"""The kit's RMS norm in Equinox models, in place of `eqx.nn.RMSNorm`.

    model = use_kit(model)  # every eqx.nn.RMSNorm in it calls the kit's

The layers keep their fields: `eqx.tree_serialise_leaves` of either kind loads
into the other.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import xla_ffi_kit


class RMSNorm(eqx.nn.RMSNorm):
    """`eqx.nn.RMSNorm` of a vector, computed by the kit.

    Under `jax.vmap` it is one batched call. Other shapes stay Equinox's.
    """

    def __call__(self, x: jax.Array, *args: Any, **kwargs: Any) -> Any:
        """Normalizes x, of the layer's shape."""
        if len(self.shape) != 1 or x.shape != self.shape or args or kwargs:
            return super().__call__(x, *args, **kwargs)
        wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
        weight = None if self.weight is None else self.weight.astype(wide.dtype)
        y = xla_ffi_kit.rms_norm(wide, weight, eps=self.eps)
        if self.bias is not None:
            y = y + self.bias.astype(y.dtype)
        return y.astype(x.dtype)

    def of_sum(self, x: jax.Array, residual: jax.Array) -> tuple[Any, Any]:
        """The normalized `x + residual` and the sum, in one pass."""
        is_wide = x.dtype == jnp.promote_types(x.dtype, jnp.float32)
        same = x.shape == self.shape and x.dtype == residual.dtype
        if len(self.shape) != 1 or not same or not is_wide:
            return self(x + residual), x + residual
        weight = None if self.weight is None else self.weight.astype(x.dtype)
        y, total = xla_ffi_kit.rms_norm(
            x, weight, residual=residual, eps=self.eps
        )
        return y if self.bias is None else y + self.bias, total


def norm_of_sum(norm: eqx.nn.RMSNorm, x: Any, residual: Any) -> tuple[Any, Any]:
    """The normalized `x + residual` and the sum, by either kind of layer."""
    if isinstance(norm, RMSNorm):
        return norm.of_sum(x, residual)
    return norm(x + residual), x + residual


def _converted(layer: Any) -> Any:
    if type(layer) is not eqx.nn.RMSNorm:
        return layer
    made = RMSNorm(layer.shape, layer.eps, layer.use_weight, layer.use_bias)
    return eqx.tree_at(
        lambda m: (m.weight, m.bias),
        made,
        (layer.weight, layer.bias),
        is_leaf=lambda v: v is None,
    )


def use_kit(model: Any) -> Any:
    """A copy of `model` whose `eqx.nn.RMSNorm` layers are the kit's."""
    return jax.tree.map(
        _converted, model, is_leaf=lambda m: isinstance(m, eqx.nn.RMSNorm)
    )


class Block(eqx.Module):
    """What a pre-norm residual block adds to its input, from its norm."""

    norm: eqx.nn.RMSNorm
    mlp: eqx.nn.MLP

    def __init__(self, width: int, *, key: jax.Array) -> None:
        self.norm = eqx.nn.RMSNorm(width)
        self.mlp = eqx.nn.MLP(width, width, 2 * width, 1, key=key)

    def __call__(self, y: jax.Array) -> jax.Array:
        return self.mlp(y)


class Model(eqx.Module):
    """Residual blocks and a final norm."""

    blocks: list[Block]
    norm: eqx.nn.RMSNorm

    def __init__(self, width: int, depth: int, *, key: jax.Array) -> None:
        keys = jax.random.split(key, depth)
        self.blocks = [Block(width, key=k) for k in keys]
        self.norm = eqx.nn.RMSNorm(width)

    def __call__(self, x: jax.Array) -> jax.Array:
        # A block's sum is normalized by what comes next.
        following = [block.norm for block in self.blocks[1:]] + [self.norm]
        y = self.blocks[0].norm(x)
        for block, norm in zip(self.blocks, following, strict=True):
            y, x = norm_of_sum(norm, block(y), x)
        return y


@eqx.filter_jit
def train_step(
    model: Model, x: jax.Array, target: jax.Array
) -> tuple[Model, jax.Array]:
    """One step of gradient descent: the new model, the loss before it."""

    def loss_of(model: Model) -> jax.Array:
        return jnp.mean((jax.vmap(model)(x) - target) ** 2)

    loss, grads = eqx.filter_value_and_grad(loss_of)(model)
    updates = jax.tree.map(lambda g: -0.05 * g, grads)
    return eqx.apply_updates(model, updates), loss
