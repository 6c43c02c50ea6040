"""numpyro: NUTS of a hidden Markov model, its forward algorithm a scan."""

import jax
import jax.numpy as jnp
import numpyro
from jax import lax
from jax.scipy.special import logsumexp
from numpyro import distributions as dist
from numpyro.infer import NUTS


def _model(words):
    move = numpyro.sample("move", dist.Dirichlet(jnp.ones((4, 4))).to_event(1))
    emit = numpyro.sample(
        "emit", dist.Dirichlet(jnp.full((4, 10), 0.5)).to_event(1)
    )

    def step(log_prob, word):
        moved = log_prob[:, None] + jnp.log(move)
        return logsumexp(moved, 0) + jnp.log(emit[:, word]), None

    last, _ = lax.scan(step, jnp.log(emit[:, words[0]]), words[1:])
    numpyro.factor("forward", logsumexp(last))


def program():
    words = jax.random.randint(jax.random.key(0), (200,), 0, 10)
    nuts = NUTS(_model)
    start = nuts.init(jax.random.key(1), 30, None, (words,), {})

    @jax.jit
    def run(start):
        def step(state, _):
            state = nuts.sample(state, (words,), {})
            return state, state.z

        return lax.scan(step, start, length=60)[1]

    return lambda: run(start)
