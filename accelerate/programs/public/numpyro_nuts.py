"""numpyro: NUTS of a logistic regression, 500 rows of 8 features."""

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import MCMC, NUTS


def _model(x, y):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(8), 1).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def program():
    x = jax.random.normal(jax.random.key(0), (500, 8))
    y = (x @ jnp.arange(8) > 0).astype(jnp.float32)
    mcmc = MCMC(
        NUTS(_model), num_warmup=100, num_samples=200, progress_bar=False
    )

    def run():
        mcmc.run(jax.random.key(1), x, y)
        return mcmc.get_samples()

    return run
