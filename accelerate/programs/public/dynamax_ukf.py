"""dynamax: an unscented Kalman filter of a pendulum, 500 steps."""

import jax
import jax.numpy as jnp
from dynamax.nonlinear_gaussian_ssm import (
    ParamsNLGSSM,
    UKFHyperParams,
    unscented_kalman_filter,
)


def _move(x):
    return jnp.stack([x[0] + 0.05 * x[1], x[1] - 0.5 * jnp.sin(x[0])])


def program():
    parameters = ParamsNLGSSM(
        initial_mean=jnp.float32([0.5, 0]),
        initial_covariance=jnp.eye(2) * 0.1,
        dynamics_function=_move,
        dynamics_covariance=jnp.eye(2) * 0.01,
        emission_function=lambda x: jnp.sin(x[:1]),
        emission_covariance=jnp.eye(1) * 0.1,
    )
    ys = jnp.sin(jnp.arange(500) * 0.1)[:, None]
    run = jax.jit(
        lambda ys: (
            unscented_kalman_filter(
                parameters, ys, UKFHyperParams()
            ).filtered_means
        )
    )
    return lambda: run(ys)
