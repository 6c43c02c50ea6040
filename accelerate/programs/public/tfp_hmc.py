"""TensorFlow Probability on JAX: 4 chains of Hamiltonian Monte Carlo."""

import jax
import jax.numpy as jnp
from tensorflow_probability.substrates import jax as tfp


def program():
    spread = jnp.eye(8) + 0.3
    target = tfp.distributions.MultivariateNormalFullCovariance(
        jnp.zeros(8), spread
    )
    kernel = tfp.mcmc.HamiltonianMonteCarlo(target.log_prob, 0.2, 8)

    @jax.jit
    def sample(key):
        return tfp.mcmc.sample_chain(
            200,
            jnp.zeros((4, 8)),
            kernel=kernel,
            trace_fn=None,
            seed=key,
        )

    return lambda: sample(jax.random.key(0))
