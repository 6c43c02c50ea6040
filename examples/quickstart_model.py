"""A small character-level transformer in plain JAX.

Its RMS norm is an argument: the quickstart trains the same model with the
operation and with the plain JAX of quickstart_ops.py.

Shapes: B sequences of T characters, width D, H heads of K = D / H, alphabet V.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Params = dict[str, Any]


Norm = Callable[[jax.Array], jax.Array]  # over the last axis


def init_params(
    key: jax.Array, *, alphabet: int, width: int, blocks: int, heads: int
) -> Params:
    """Draws the weights; every normed stream starts at unit variance."""
    keys = iter(jax.random.split(key, 1 + 4 * blocks))

    def matrix(*shape: int, fan_in: int) -> jax.Array:
        return jax.random.normal(next(keys), shape) * fan_in**-0.5

    def block() -> Params:
        return {
            "qkv": matrix(width, 3, heads, width // heads, fan_in=width),
            "out": matrix(heads, width // heads, width, fan_in=width),
            "norm_1": jnp.ones(width),
            "up": matrix(width, 4 * width, fan_in=width),
            "down": matrix(4 * width, width, fan_in=4 * width),
            "norm_2": jnp.ones(width),
        }

    return {
        # Also the output layer: small, so that the first guess is "any
        # character" and the loss starts near log(V).
        "embed": matrix(alphabet, width, fan_in=16 * width),
        "norm_0": jnp.ones(width),
        "blocks": [block() for _ in range(blocks)],
    }


def attention(y: jax.Array, block: Params) -> jax.Array:
    """Causal self-attention, f32[..., T, D] -> f32[..., T, D]."""
    q, k, v = jnp.einsum("...td,dshk->s...thk", y, block["qkv"])
    # ALiBi (arXiv 2108.12409): a score falls with the distance, in each head at
    # another slope. Without positions to learn, the loss falls in 100 steps
    # to where learned positions get in 300.
    distance = jnp.arange(y.shape[-2])[:, None] - jnp.arange(y.shape[-2])
    slopes = 0.25 ** jnp.arange(q.shape[-2])
    bias = -slopes[:, None, None] * distance
    mixed = jax.nn.dot_product_attention(
        q, k, v, bias[(None,) * (y.ndim - 2)], is_causal=True
    )
    return jnp.einsum("...thk,hkd->...td", mixed, block["out"])


def mlp(y: jax.Array, block: Params) -> jax.Array:
    """Two layers, position by position, f32[..., T, D] -> f32[..., T, D]."""
    return jax.nn.gelu(y @ block["up"]) @ block["down"]


def logits(params: Params, characters: jax.Array, norm: Norm) -> jax.Array:
    """Scores of each next character, int32[..., T] -> f32[..., T, V]."""
    h = params["embed"][characters]
    for block in params["blocks"]:
        h = h + attention(norm(h) * block["norm_1"], block)
        h = h + mlp(norm(h) * block["norm_2"], block)
    return norm(h) * params["norm_0"] @ params["embed"].T


def loss(params: Params, windows: jax.Array, norm: Norm) -> jax.Array:
    """Cross-entropy of the next character in nats: int32[..., T + 1]."""
    scores = logits(params, windows[..., :-1], norm)
    log_p = jax.nn.log_softmax(scores)
    return -jnp.take_along_axis(log_p, windows[..., 1:, None], axis=-1).mean()


def continue_text(
    params: Params, window: jax.Array, norm: Norm, key: jax.Array, count: int
) -> jax.Array:
    """Draws `count` characters that follow `window`, int32[T] -> int32[count].

    The temperature is 0.7: a little bolder than the model's own distribution.
    """

    def step(window: jax.Array, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        scores = logits(params, window[None], norm)[0, -1]
        character = jax.random.categorical(key, scores / 0.7).astype(
            window.dtype
        )
        return jnp.append(window[1:], character), character

    return jax.lax.scan(step, window, jax.random.split(key, count))[1]
