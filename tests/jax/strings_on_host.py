"""Three algorithms of `strings_kernels` in Python: one row, NumPy arrays."""

import heapq

import numpy as np


def shortest_path(grid):
    height, width = grid.shape
    best = np.full(grid.shape, np.inf)
    best[0, 0] = grid[0, 0] ** 2
    queue = [(best[0, 0], 0, 0)]
    while queue:
        so_far, y, x = heapq.heappop(queue)
        for i, j in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x)):
            if 0 <= i < height and 0 <= j < width:
                path = so_far + grid[i, j] ** 2
                if path < best[i, j]:
                    best[i, j] = path
                    heapq.heappush(queue, (path, i, j))
    return best[-1, -1]


def isotonic(x, weight):
    """The least of the means to the right of each of those to the left."""
    n = len(x)
    means = np.full((n, n), -np.inf)
    for i in range(n):
        for j in range(i, n):
            part = slice(i, j + 1)
            means[i, j] = np.average(x[part], weights=weight[part])
    return np.array(
        [max(means[i, k:].min() for i in range(k + 1)) for k in range(n)]
    )


def simulate(arrival, service, *, servers=2):
    """How long each customer waits, and for which server."""
    free, waiting = np.zeros(servers), np.zeros_like(arrival)
    server = np.zeros(arrival.shape, np.int32)
    for i in np.argsort(arrival):
        server[i] = first = np.argmin(free)
        begin = max(free[first], arrival[i])
        waiting[i] = begin - arrival[i]
        free[first] = begin + service[i] ** 2
    return waiting, server
