"""pgx: 64 games of backgammon, 100 random moves of each."""

import jax
import jax.numpy as jnp
import pgx


def program():
    env = pgx.make("backgammon")

    @jax.jit
    def play(key):
        state = jax.vmap(env.init)(jax.random.split(key, 64))

        def step(state, key):
            one, other = jax.random.split(key)
            logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
            action = jax.random.categorical(one, logits)
            keys = jax.random.split(other, 64)
            return jax.vmap(env.step)(state, action, keys), state.rewards

        return jax.lax.scan(step, state, jax.random.split(key, 100))[1]

    return lambda: play(jax.random.key(0))
