"""jaxkd: a tree of 20,000 points, and the 8 neighbors of 2,000."""

import jax
import jaxkd


def program():
    points = jax.random.normal(jax.random.key(0), (20_000, 3))
    queries = jax.random.normal(jax.random.key(1), (2000, 3))

    def run():
        tree = jaxkd.build_tree(points)
        return jaxkd.query_neighbors(tree, queries, k=8)

    return run
