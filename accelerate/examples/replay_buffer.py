"""A prioritized replay buffer: learn most from what surprises most.

Schaul and others (2016). Transitions are drawn with a probability that is a
power of their last error (a cumulative sum and a search); a linear value
function learns from them; their new errors go back into the buffer, and the
transition that surprises least makes room for a new one (an argmin).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

FEATURES = 16
BATCH = 256
STEPS = 20
_ALPHA = 0.6
_RATE = 0.05


def arguments(short: bool) -> tuple[jax.Array, ...]:
    """Features, returns and priorities of the transitions, and a key."""
    count = 5_000 if short else 500_000
    keys = jax.random.split(jax.random.key(0), 4)
    features = jax.random.normal(keys[0], (count, FEATURES))
    truth = jax.random.normal(keys[1], (FEATURES,))
    noise = jax.random.normal(keys[2], (count,)) / 4
    return features, features @ truth + noise, jnp.ones(count), keys[3]


def program(
    features: jax.Array, returns: jax.Array, priority: jax.Array, key: jax.Array
) -> tuple[jax.Array, ...]:
    """The weights learnt, the priorities, and what was overwritten."""
    count = priority.size

    def step(carry: tuple, key: jax.Array) -> tuple[tuple, jax.Array]:
        weights, priority = carry
        p = priority**_ALPHA
        p = p / p.sum()
        drawn = jax.random.choice(key, count, (BATCH,), p=p)
        x = features[drawn]
        error = returns[drawn] - x @ weights
        # What is drawn more often counts less, so that the mean is unbiased.
        scale = 1 / (count * p[drawn])
        weights += _RATE * (scale / scale.max() * error) @ x / BATCH
        priority = priority.at[drawn].set(jnp.abs(error) + 1e-3)
        least = jnp.argmin(priority)
        priority = priority.at[least].set(priority.max())
        return (weights, priority), least

    start = jnp.zeros(FEATURES), priority
    carry, overwritten = jax.lax.scan(step, start, jax.random.split(key, STEPS))
    return *carry, overwritten
