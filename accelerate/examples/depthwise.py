"""A block of a MobileNet, trained: which way do the stripes run?

Howard and others (2017): a convolution for each channel by itself, one that
mixes channels, and the greatest of each 2 x 2 pixels. A step takes the
gradients of all of it by `jax.grad`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

NAMES = ("depthwise",)
TOLERANCE = 1e-3

CHANNELS = 32
SIDE = 64
STEPS = 3
_RATE = 0.1


def arguments(short: bool) -> tuple[jax.Array, ...]:
    """Images [image, row, column, channel], labels, and the weights."""
    images = 4 if short else 16
    keys = jax.random.split(jax.random.key(0), 5)
    label = jax.random.bernoulli(keys[0], 0.5, (images,))
    row, column = jnp.mgrid[:SIDE, :SIDE]
    stripes = jnp.where(label[:, None, None], jnp.sin(row), jnp.sin(column))
    noise = jax.random.normal(keys[1], (images, SIDE, SIDE, CHANNELS))
    x = stripes[..., None] + noise
    kernel = jax.random.normal(keys[2], (3, 3, 1, CHANNELS)) / 3
    mix = jax.random.normal(keys[3], (CHANNELS, CHANNELS)) / CHANNELS**0.5
    read = jax.random.normal(keys[4], (CHANNELS,)) / CHANNELS**0.5
    return x, label.astype(x.dtype), kernel, mix, read


def _loss(weights: tuple, x: jax.Array, label: jax.Array) -> jax.Array:
    kernel, mix, read = weights
    x = jax.lax.conv_general_dilated(
        x,
        kernel,
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=CHANNELS,
    )
    x = jax.nn.relu(jnp.einsum("nhwc,cd->nhwd", x, mix))
    x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )
    logit = x.mean((1, 2)) @ read
    return (jax.nn.softplus(logit) - label * logit).mean()


def program(
    x: jax.Array,
    label: jax.Array,
    kernel: jax.Array,
    mix: jax.Array,
    read: jax.Array,
) -> tuple[tuple[jax.Array, ...], jax.Array]:
    """The weights learnt, and the loss of each step."""
    weights = kernel, mix, read
    losses = []
    # Not a scan, in which XLA's own convolutions are many times slower.
    for _ in range(STEPS):
        loss, slope = jax.value_and_grad(_loss)(weights, x, label)
        weights = jax.tree.map(lambda w, s: w - _RATE * s, weights, slope)
        losses.append(loss)
    return weights, jnp.stack(losses)
