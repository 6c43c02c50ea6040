"""numpyro: stochastic variational inference of a regression, 300 steps."""

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoMultivariateNormal


def _model(x, y):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(16), 1).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    numpyro.sample("y", dist.Normal(x @ w, scale), obs=y)


def program():
    x = jax.random.normal(jax.random.key(0), (2000, 16))
    y = x @ jnp.arange(16) + jax.random.normal(jax.random.key(1), (2000,))
    guide = AutoMultivariateNormal(_model)
    svi = SVI(_model, guide, numpyro.optim.Adam(0.01), Trace_ELBO())

    @jax.jit
    def run(key):
        done = svi.run(key, 300, x, y, progress_bar=False)
        return done.params, done.losses

    return lambda: run(jax.random.key(2))
