"""evosax: 200 generations of differential evolution, 256 of 64 dimensions."""

import jax
import jax.numpy as jnp
from evosax.algorithms import DifferentialEvolution


def program():
    strategy = DifferentialEvolution(
        population_size=256, solution=jnp.zeros(64)
    )
    parameters = strategy.default_params

    @jax.jit
    def search(key):
        start = jax.random.normal(key, (256, 64))
        fit = jnp.sum(start**2, -1)
        state = strategy.init(key, start, fit, parameters)

        def step(state, key):
            one, other = jax.random.split(key)
            xs, state = strategy.ask(one, state, parameters)
            fit = jnp.sum(xs**2, -1)
            state, _ = strategy.tell(other, xs, fit, state, parameters)
            return state, fit.min()

        return jax.lax.scan(step, state, jax.random.split(key, 200))[1]

    return lambda: search(jax.random.key(0))
