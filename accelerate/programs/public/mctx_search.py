"""mctx: a Gumbel MuZero search, 128 roots, 32 simulations."""

import jax
import jax.numpy as jnp
import mctx


def program():
    w = jax.random.normal(jax.random.key(0), (32, 32)) / 6

    def model(_, key, action, state):
        state = jnp.tanh(state @ w + action[:, None] * 0.1)
        return (
            mctx.RecurrentFnOutput(
                reward=state[:, 0],
                discount=jnp.full(128, 0.99),
                prior_logits=state[:, :16],
                value=state[:, 1],
            ),
            state,
        )

    @jax.jit
    def run(key):
        state = jax.random.normal(key, (128, 32))
        root = mctx.RootFnOutput(
            prior_logits=state[:, :16], value=state[:, 1], embedding=state
        )
        policy = mctx.gumbel_muzero_policy(None, key, root, model, 32)
        return policy.action, policy.action_weights

    return lambda: run(jax.random.key(1))
