"""Adaptive Metropolis: 5,000 logistic regressions, a chain for each.

Haario, Saksman and Tamminen (2001). Every group of observations has four
coefficients of its own. A chain proposes its next point from a normal
distribution (random numbers) with the covariance of the points it has seen (a
Cholesky factor of a 4 x 4 matrix, in each step anew), and takes it or not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

NAMES = ("linalg",)
# A chain goes another way once a proposal is just taken, or just not.
TOLERANCE = 1e-2

COEFFICIENTS = 4
OBSERVATIONS = 8
STEPS = 50
# Roberts and others (1997): the best scale for a normal distribution.
_SCALE = 2.38 / COEFFICIENTS**0.5


def arguments(short: bool) -> tuple[jax.Array, ...]:
    """Inputs [group, observation, coefficient], labels, and a key."""
    groups = 50 if short else 5_000
    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (groups, OBSERVATIONS, COEFFICIENTS))
    truth = jax.random.normal(keys[1], (groups, COEFFICIENTS))
    chance = jax.nn.sigmoid(jnp.einsum("goc,gc->go", x, truth))
    return x, jax.random.bernoulli(keys[2], chance).astype(x.dtype), keys[3]


def _log_posterior(theta: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
    """Of the coefficients of each group, with a normal prior: [group]."""
    logit = jnp.einsum("goc,gc->go", x, theta)
    likelihood = (y * logit - jax.nn.softplus(logit)).sum(-1)
    return likelihood - jnp.square(theta).sum(-1) / 2


def program(
    x: jax.Array, y: jax.Array, key: jax.Array
) -> tuple[jax.Array, ...]:
    """The coefficients of all groups: mean, spread; proposals taken."""
    groups = x.shape[0]

    def step(state: tuple, inputs: tuple) -> tuple[tuple, jax.Array]:
        theta, density, mean, covariance = state
        i, key = inputs
        propose, accept = jax.random.split(key)
        root = jnp.linalg.cholesky(covariance)
        white = jax.random.normal(propose, theta.shape)
        there = theta + _SCALE * jnp.einsum("gij,gj->gi", root, white)
        density_there = _log_posterior(there, x, y)
        chance = jnp.exp(density_there - density)
        taken = jax.random.uniform(accept, chance.shape) < chance
        theta = jnp.where(taken[:, None], there, theta)
        density = jnp.where(taken, density_there, density)
        # The running mean and covariance, as if the prior were ten points.
        weight = 1 / (i + 11)
        off = theta - mean
        mean = mean + weight * off
        square = off[:, :, None] * off[:, None, :]
        covariance = (1 - weight) * (covariance + weight * square)
        return (theta, density, mean, covariance), taken

    theta = jnp.zeros((groups, COEFFICIENTS))
    identity = jnp.broadcast_to(jnp.eye(COEFFICIENTS), (groups, 4, 4))
    start = theta, _log_posterior(theta, x, y), theta, identity
    steps = jnp.arange(STEPS), jax.random.split(key, STEPS)
    (_, _, mean, _), taken = jax.lax.scan(step, start, steps)
    return mean.mean(0), mean.std(0), taken.mean()
