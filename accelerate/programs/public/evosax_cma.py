"""evosax: 100 generations of CMA-ES in 32 dimensions."""

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES


def program():
    strategy = CMA_ES(population_size=64, solution=jnp.zeros(32))
    parameters = strategy.default_params

    @jax.jit
    def search(key):
        state = strategy.init(key, jnp.ones(32), parameters)

        def step(state, key):
            one, other = jax.random.split(key)
            xs, state = strategy.ask(one, state, parameters)
            fit = jnp.sum(xs**2, -1)
            state, _ = strategy.tell(other, xs, fit, state, parameters)
            return state, fit.min()

        return jax.lax.scan(step, state, jax.random.split(key, 100))[1]

    return lambda: search(jax.random.key(0))
