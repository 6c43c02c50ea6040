"""cuthbert: a Kalman filter of 4 states, 500 steps."""

import cuthbert
import jax
import jax.numpy as jnp
from cuthbert.gaussian import kalman


def program():
    ys = jax.random.normal(jax.random.key(0), (501, 2))
    move = jnp.eye(4).at[jnp.array([0, 1]), jnp.array([2, 3])].set(0.1)

    def dynamics(y):
        return move, jnp.zeros(4), 0.3 * jnp.eye(4)

    def observation(y):
        return jnp.eye(2, 4), jnp.zeros(2), 0.7 * jnp.eye(2), y

    kalman_filter = kalman.build_filter(
        jnp.zeros(4), jnp.eye(4), dynamics, observation
    )

    @jax.jit
    def run(ys):
        start = kalman_filter.init_prepare()
        return cuthbert.filter(kalman_filter, ys[1:], start).mean

    return lambda: run(ys)
