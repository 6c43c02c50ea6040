"""A mixture of experts: each token goes to two of 64 small networks.

As in GShard (2021) and Mixtral (2024): the router's two best experts of each
token (top_k), a place in the queue of each (a cumulative sum over the tokens),
tokens beyond an expert's capacity left out, and the tokens in the order of
their experts (a stable sort), so that each expert reads its own in one piece.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

EXPERTS = 64
CHOICES = 2
WIDTH = 32


def arguments() -> tuple[jax.Array, ...]:
    """Tokens, the router's weights, and each expert's two layers."""
    tokens = 256
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (tokens, WIDTH))
    router = jax.random.normal(keys[1], (WIDTH, EXPERTS)) / WIDTH**0.5
    up = jax.random.normal(keys[2], (EXPERTS, WIDTH, WIDTH)) / WIDTH**0.5
    down = jax.random.normal(keys[3], (EXPERTS, WIDTH, WIDTH)) / WIDTH**0.5
    return x, router, up, down


def program(
    x: jax.Array, router: jax.Array, up: jax.Array, down: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The tokens after their experts, and how many each expert received."""
    tokens = x.shape[0]
    capacity = tokens * CHOICES * 5 // (EXPERTS * 4)
    gates, experts = jax.lax.top_k(jax.nn.softmax(x @ router), CHOICES)
    gates = gates / gates.sum(-1, keepdims=True)

    expert = experts.reshape(-1)
    gate = gates.reshape(-1)
    chosen = jax.nn.one_hot(expert, EXPERTS, dtype=jnp.int32)
    queue = jnp.cumsum(chosen, axis=0)
    place = jnp.take_along_axis(queue, expert[:, None], 1)[:, 0] - 1
    has_place = place < capacity

    order = jnp.argsort(expert)
    slot = jnp.where(has_place, expert * capacity + place, EXPERTS * capacity)
    inputs = (
        jnp.zeros((EXPERTS * capacity, WIDTH))
        .at[slot[order]]
        .set(x[order // CHOICES], mode="drop")
    )
    inputs = inputs.reshape(EXPERTS, capacity, WIDTH)
    hidden = jax.nn.relu(jnp.einsum("ecw,ewh->ech", inputs, up))
    outputs = jnp.einsum("ech,ehw->ecw", hidden, down).reshape(-1, WIDTH)
    back = outputs.at[slot].get(mode="fill", fill_value=0)
    mixed = (back * gate[:, None]).reshape(tokens, CHOICES, WIDTH).sum(1)
    return mixed, queue[-1]
