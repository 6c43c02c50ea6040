"""distrax: samples and densities of a mixture, 100,000 of them."""

import distrax
import jax
import jax.numpy as jnp


def program():
    @jax.jit
    def run(key):
        mixture = distrax.MixtureSameFamily(
            distrax.Categorical(probs=jnp.float32([0.3, 0.7])),
            distrax.Normal(jnp.float32([-1, 2]), jnp.float32([0.5, 1])),
        )
        x = mixture.sample(seed=key, sample_shape=(100_000,))
        return x, mixture.log_prob(x), jnp.median(x)

    return lambda: run(jax.random.key(0))
