"""dynamax: expectation maximization of a hidden Markov model, 10 rounds."""

import jax
from dynamax.hidden_markov_model import GaussianHMM


def program():
    model = GaussianHMM(8, 2)
    ys = jax.random.normal(jax.random.key(1), (1000, 2))
    parameters, properties = model.initialize(jax.random.key(0))

    @jax.jit
    def run(parameters, ys):
        def step(carry, _):
            parameters, state = carry
            found, fit = jax.vmap(model.e_step, (None, 0))(parameters, ys)
            carry = model.m_step(parameters, properties, found, state)
            return carry, fit.sum()

        state = model.initialize_m_step_state(parameters, properties)
        return jax.lax.scan(step, (parameters, state), length=10)[1]

    return lambda: run(parameters, ys[None])
