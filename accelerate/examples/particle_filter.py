"""A particle filter: where is a moving thing, seen through noise?

The bootstrap filter on the model of Gordon, Salmond and Smith (1993), a
benchmark of the field. Each step moves the particles, weighs them by the
observation, resamples them systematically (a cumulative sum and a search), and
reports the median and the 90 % interval of where they are (a sort).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

STEPS = 20


def _move(x: jax.Array, t: jax.Array) -> jax.Array:
    return x / 2 + 25 * x / (1 + x * x) + 8 * jnp.cos(1.2 * t)


def observations(key: jax.Array) -> jax.Array:
    """What is seen of one path: x^2 / 20, and noise."""

    def step(x: jax.Array, inputs: tuple[jax.Array, jax.Array]) -> tuple:
        t, noise = inputs
        x = _move(x, t) + jnp.sqrt(10.0) * noise[0]
        return x, x * x / 20 + noise[1]

    times = jnp.arange(STEPS, dtype=jnp.float32)
    noise = jax.random.normal(key, (STEPS, 2))
    return jax.lax.scan(step, jnp.float32(0.1), (times, noise))[1]


def arguments() -> tuple[jax.Array, ...]:
    """Observations, the particles at the start, and a key."""
    count = 2_000
    keys = jax.random.split(jax.random.key(0), 3)
    start = jax.random.normal(keys[1], (count,)) * 2
    return observations(keys[0]), start, keys[2]


def program(seen: jax.Array, start: jax.Array, key: jax.Array) -> jax.Array:
    """The median and the 5th and 95th percentile of each step: [steps, 3]."""
    count = start.size

    def step(x: jax.Array, inputs: tuple) -> tuple[jax.Array, jax.Array]:
        t, y, key = inputs
        move_key, resample_key = jax.random.split(key)
        noise = jax.random.normal(move_key, (count,))
        x = _move(x, t) + jnp.sqrt(10.0) * noise
        log_weight = -((y - x * x / 20) ** 2) / 2
        cumulative = jnp.cumsum(jnp.exp(log_weight - log_weight.max()))
        first = jax.random.uniform(resample_key)
        at = (jnp.arange(count) + first) / count * cumulative[-1]
        x = x[jnp.clip(jnp.searchsorted(cumulative, at), 0, count - 1)]
        return x, jnp.percentile(x, jnp.array([50.0, 5.0, 95.0]))

    times = jnp.arange(STEPS, dtype=jnp.float32)
    return jax.lax.scan(
        step, start, (times, seen, jax.random.split(key, STEPS))
    )[1]
