"""blackjax: 200 steps of NUTS in 16 dimensions."""

import blackjax
import jax
import jax.numpy as jnp


def program():
    def density(x):
        return -0.5 * jnp.sum(x**2 * jnp.arange(1.0, 17.0))

    nuts = blackjax.nuts(density, 0.2, jnp.ones(16))

    @jax.jit
    def sample(key):
        state = nuts.init(jnp.ones(16))

        def step(state, key):
            state, _ = nuts.step(key, state)
            return state, state.position

        return jax.lax.scan(step, state, jax.random.split(key, 200))[1]

    return lambda: sample(jax.random.key(0))
