"""ott-jax: the sliced Wasserstein distance of 2,000 points, with gradient."""

import jax
from ott.tools import sliced


def program():
    x, y = (jax.random.normal(jax.random.key(i), (2000, 3)) for i in (0, 1))

    @jax.jit
    def run(x, y):
        return jax.value_and_grad(
            lambda x: sliced.sliced_wasserstein(x, y, n_proj=200)[0]
        )(x)

    return lambda: run(x, y)
