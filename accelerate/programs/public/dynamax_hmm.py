"""dynamax: expectation maximization of a hidden Markov model, 10 rounds."""

import jax
from dynamax.hidden_markov_model import GaussianHMM


def program():
    model = GaussianHMM(8, 2)
    ys = jax.random.normal(jax.random.key(1), (1000, 2))
    parameters, properties = model.initialize(jax.random.key(0))

    def run():
        return model.fit_em(
            parameters, properties, ys, num_iters=10, verbose=False
        )[1]

    return run
