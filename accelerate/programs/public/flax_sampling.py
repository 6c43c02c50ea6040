"""flax: 32 texts of 32 tokens, sampled among the 40 likeliest of 32,000."""

import jax
import jax.numpy as jnp
from flax import linen as nn


class _Network(nn.Module):
    @nn.compact
    def __call__(self, state, token):
        x = nn.Embed(32_000, 64)(token)
        state, x = nn.GRUCell(64)(state, x)
        return state, nn.Dense(32_000)(x)


def program():
    model = _Network()
    state, token = jnp.zeros((32, 64)), jnp.zeros(32, jnp.int32)
    parameters = model.init(jax.random.key(0), state, token)

    @jax.jit
    def sample(parameters, key):
        def step(carry, key):
            state, logits = model.apply(parameters, *carry)
            best, index = jax.lax.top_k(logits, 40)
            chosen = jax.random.categorical(key, best)[:, None]
            token = jnp.take_along_axis(index, chosen, 1)[:, 0]
            return (state, token), token

        keys = jax.random.split(key, 32)
        return jax.lax.scan(step, (state, token), keys)[1]

    return lambda: sample(parameters, jax.random.key(1))
