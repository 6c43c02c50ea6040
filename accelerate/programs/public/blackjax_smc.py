"""blackjax: adaptive tempered sequential Monte Carlo, 2,000 particles."""

import blackjax
import jax
import jax.numpy as jnp
from blackjax.smc import resampling


def program():
    def prior(x):
        return -0.5 * jnp.sum(x**2)

    def likelihood(x):
        return -jnp.sum((x**2 - 1) ** 2) * 4

    smc = blackjax.adaptive_tempered_smc(
        prior,
        likelihood,
        _step,
        blackjax.rmh.init,
        {},
        resampling.systematic,
        0.5,
        num_mcmc_steps=5,
    )

    @jax.jit
    def sample(key):
        state = smc.init(jax.random.normal(key, (2000, 2)))

        def step(state, key):
            return smc.step(key, state)[0], None

        return jax.lax.scan(step, state, jax.random.split(key, 20))[0].particles

    return lambda: sample(jax.random.key(0))


def _step(key, state, density):
    return blackjax.rmh.build_kernel()(key, state, density, _move)


def _move(key, x):
    return x + 0.3 * jax.random.normal(key, x.shape)
