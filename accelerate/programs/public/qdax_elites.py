"""qdax: 50 generations of MAP-Elites, a plane of 1,024 cells."""

import functools

import jax
import jax.numpy as jnp
from qdax.core.containers.mapelites_repertoire import (
    compute_cvt_centroids,
)
from qdax.core.emitters.mutation_operators import isoline_variation
from qdax.core.emitters.standard_emitters import MixingEmitter
from qdax.core.map_elites import MAPElites
from qdax.utils.metrics import default_qd_metrics


def _score(x, key):
    fit = -jnp.sum((x - 0.5) ** 2, -1, keepdims=True)
    return fit, x[:, :2], {}


def program():
    emitter = MixingEmitter(
        mutation_fn=lambda x, key: (x, key),
        variation_fn=functools.partial(
            isoline_variation, iso_sigma=0.05, line_sigma=0.1
        ),
        variation_percentage=1.0,
        batch_size=256,
    )
    elites = MAPElites(
        scoring_function=_score,
        emitter=emitter,
        metrics_function=functools.partial(default_qd_metrics, qd_offset=16.0),
    )
    cells = compute_cvt_centroids(
        num_descriptors=2,
        num_init_cvt_samples=10_000,
        num_centroids=1024,
        minval=0.0,
        maxval=1.0,
        key=jax.random.key(0),
    )

    @jax.jit
    def search(x, cells, key):
        repertoire, state, _ = elites.init(x, cells, key)
        step = elites.scan_update
        carry = repertoire, state, key
        carry, _ = jax.lax.scan(lambda c, _: step(c, _), carry, length=50)
        return carry[0].fitnesses

    x = jax.random.uniform(jax.random.key(1), (256, 16))
    return lambda: search(x, cells, jax.random.key(2))
