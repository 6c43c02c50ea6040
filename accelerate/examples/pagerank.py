"""Personal PageRank: what matters to each of 32 readers of a web of pages?

Page and others (1999), Haveliwala (2002). A random surfer follows links, and
jumps back to the pages of a topic now and then: a product of the sparse matrix
of links (BCOO) with one column for each topic, again and again.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.experimental import sparse

# The products are the same bit for bit; the sums of a topic's ranks, which stay
# XLA's, are added in another order where another operation comes before them.
TOLERANCE = 1e-5

TOPICS = 32
STEPS = 10
_FOLLOW = 0.85


def arguments() -> tuple[sparse.BCOO, jax.Array]:
    """The links, and the pages that each topic starts from."""
    pages = 500
    links = 20 * pages
    keys = jax.random.split(jax.random.key(0), 3)
    source = jax.random.randint(keys[0], (links,), 0, pages)
    # Few pages are linked to by many, as on the web.
    target = (pages * jax.random.uniform(keys[1], (links,)) ** 3).astype(int)
    degree = jnp.zeros(pages).at[source].add(1)
    matrix = sparse.BCOO(
        (1 / degree[source], jnp.stack([target, source], 1)),
        shape=(pages, pages),
    ).sort_indices()
    start = jax.random.uniform(keys[2], (pages, TOPICS))
    return matrix, start / start.sum(0)


def program(matrix: sparse.BCOO, start: jax.Array) -> jax.Array:
    """The rank of each page in each topic: [page, topic]."""

    def step(_: jax.Array, rank: jax.Array) -> jax.Array:
        rank = _FOLLOW * (matrix @ rank)
        # The rest jumps, and so do those who found no link.
        return rank + (1 - rank.sum(0)) * start

    return jax.lax.fori_loop(0, STEPS, step, start)
