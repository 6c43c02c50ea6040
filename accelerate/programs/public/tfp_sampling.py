"""TensorFlow Probability on JAX: samples of several distributions."""

import jax
from tensorflow_probability.substrates import jax as tfp

tfd = tfp.distributions


def program():
    mixture = tfd.MixtureSameFamily(
        tfd.Categorical(probs=[0.2, 0.3, 0.5]),
        tfd.Normal([-1.0, 0.0, 2.0], [0.5, 1.0, 0.2]),
    )

    @jax.jit
    def sample(key):
        a, b, c = jax.random.split(key, 3)
        x = mixture.sample(100_000, seed=a)
        return (
            x,
            mixture.log_prob(x),
            tfd.Laplace(0.0, 1.0).sample(100_000, seed=b),
            tfp.stats.percentile(x, 90.0),
            tfd.VonMises(0.0, 2.0).log_prob(x),
        )

    return lambda: sample(jax.random.key(0))
