"""numpyro: NUTS of a logistic regression, 500 rows of 8 features."""

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import NUTS


def _model(x, y):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(8), 1).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def program():
    x = jax.random.normal(jax.random.key(0), (500, 8))
    y = (x @ jnp.arange(8) > 0).astype(jnp.float32)
    nuts = NUTS(_model)
    start = nuts.init(jax.random.key(1), 100, None, (x, y), {})

    @jax.jit
    def run(start):
        def step(state, _):
            state = nuts.sample(state, (x, y), {})
            return state, state.z

        return jax.lax.scan(step, start, length=300)[1]

    return lambda: run(start)
