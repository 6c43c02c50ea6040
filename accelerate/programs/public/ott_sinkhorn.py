"""ott-jax: Sinkhorn's algorithm between two clouds of 500 points."""

import jax
from ott.geometry import pointcloud
from ott.solvers import linear


def program():
    x, y = (jax.random.normal(jax.random.key(i), (500, 3)) for i in (0, 1))

    @jax.jit
    def solve(x, y):
        return linear.solve(pointcloud.PointCloud(x, y, epsilon=0.1)).f

    return lambda: solve(x, y)
