"""optax: 500 projections of 1,000 values onto the simplex."""

import jax
from optax import projections


def program():
    x = jax.random.normal(jax.random.key(0), (500, 1000))
    run = jax.jit(jax.vmap(projections.projection_simplex))
    return lambda: run(x)
