"""pgx: 64 games of chess, 20 random moves of each."""

import jax
import jax.numpy as jnp
import pgx


def program():
    env = pgx.make("chess")

    @jax.jit
    def play(key):
        state = jax.vmap(env.init)(jax.random.split(key, 64))

        def step(state, key):
            logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
            action = jax.random.categorical(key, logits)
            return jax.vmap(env.step)(state, action), state.rewards

        return jax.lax.scan(step, state, jax.random.split(key, 20))[1]

    return lambda: play(jax.random.key(0))
