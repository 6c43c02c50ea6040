"""numpyro: Stein variational inference with 64 particles, 200 steps."""

import jax
import jax.numpy as jnp
import numpyro
from numpyro import distributions as dist
from numpyro.contrib.einstein import RBFKernel, SteinVI
from numpyro.infer.autoguide import AutoDelta
from numpyro.optim import Adagrad


def _model(x, y):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(8), 1).to_event(1))
    numpyro.sample("y", dist.Normal(x @ w, 1), obs=y)


def program():
    x = jax.random.normal(jax.random.key(0), (500, 8))
    y = x @ jnp.arange(8)
    stein = SteinVI(
        _model,
        AutoDelta(_model),
        Adagrad(0.1),
        RBFKernel(),
        num_stein_particles=64,
    )

    @jax.jit
    def run(key):
        done = stein.run(key, 200, x, y, progress_bar=False)
        return done.params, done.losses

    return lambda: run(jax.random.key(1))
