"""dynamax: a linear Gaussian state space model's filter, 4 states."""

import jax
import jax.numpy as jnp
from dynamax.linear_gaussian_ssm import LinearGaussianSSM


def program():
    model = LinearGaussianSSM(state_dim=4, emission_dim=2)
    parameters, _ = model.initialize(jax.random.key(0))
    ys = jax.random.normal(jax.random.key(1), (1000, 2))
    run = jax.jit(lambda ys: model.smoother(parameters, ys).smoothed_means)
    return lambda: jnp.asarray(run(ys))
