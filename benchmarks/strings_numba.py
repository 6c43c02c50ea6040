"""The kernels of the benchmark of strings as loops in Python, for numba.

Each takes the arrays of a row, results last; constants are f32, since numba
computes an integer and an f32 in f64.
"""

import heapq
import math

import numba
import numpy as np

F = np.float32
_ONE, _TWO, _THREE, _HALF = F(1), F(2), F(3), F(0.5)
_FAR = F(1e6)
_H = F(6 / 512)
_H2, _H6 = F(3 / 512), F(1 / 512)


def _smoothing(x, out):
    state = F(0)
    for i in range(x.size):
        state += F(0.125) * (x[i] - state)
        out[i] = state


@numba.njit
def _slope(u, w):
    return F(1.5) * u - u * w, u * w - _THREE * w


def _lotka_volterra(x, out):
    u = w = _ONE
    for i in range(x.size):
        u += F(0.0078125) * x[i]
        a, b = _slope(u, w)
        c, d = _slope(u + _H2 * a, w + _H2 * b)
        e, f = _slope(u + _H2 * c, w + _H2 * d)
        p, q = _slope(u + _H * e, w + _H * f)
        u += _H6 * (a + _TWO * c + _TWO * e + p)
        w += _H6 * (b + _TWO * d + _TWO * f + q)
        out[i] = u


def _hmm(x, out):
    alpha, following = np.full(4, F(0.25)), np.empty(4, F)
    total = F(0)
    for i in range(x.size):
        scale = F(0)
        for k in range(4):
            chance = F(0)
            for j in range(4):
                chance += alpha[j] * (F(0.625) if j == k else F(0.125))
            off = x[i] - F(k)
            following[k] = chance * math.exp(-_HALF * off * off)
            scale += following[k]
        for k in range(4):
            alpha[k] = following[k] / scale
        total += math.log(scale)
        out[i] = total


def _kalman(x, noise, out):
    m, n, a, b, c = F(0), F(0), _ONE, F(0), _ONE
    for i in range(x.size):
        m += n
        a += _TWO * b + c + noise[0]
        b += c
        c += noise[1]
        seen, rest = a + noise[2], x[i] - m
        g, h = a / seen, b / seen
        m += g * rest
        n += h * rest
        c -= h * b
        b -= g * b
        a -= g * a
        out[i] = m


def _garch(x, p, out):
    variance, fit = _ONE, F(0)
    for i in range(x.size):
        fit += math.log(variance) + x[i] * x[i] / variance
        variance = p[0] + p[1] * x[i] * x[i] + p[2] * variance
    out[0] = -_HALF * fit


def _spline(x, t, y, s, out):
    for i in range(x.size):
        low, high = 0, t.size - 1
        while high - low > 1:
            middle = (low + high) // 2
            if x[i] < t[middle]:
                high = middle
            else:
                low = middle
        h = t[high] - t[low]
        u = (x[i] - t[low]) / h
        v = _ONE - u
        before = (_ONE + _TWO * u) * v * v * y[low] + u * v * v * h * s[low]
        after = (_THREE - _TWO * u) * u * u * y[high] - u * u * v * h * s[high]
        out[i] = before + after


def _soft_dtw(x, m, out):
    line = np.full(m.size + 1, _FAR)
    line[0] = F(0)
    for i in range(x.size):
        corner = line[0]
        line[0] = _FAR
        for j in range(m.size):
            left, up, d = line[j], line[j + 1], x[i] - m[j]
            low = min(corner, min(left, up))
            ways = math.exp(low - corner) + math.exp(low - left)
            ways += math.exp(low - up)
            line[j + 1] = d * d + low - math.log(ways)
            corner = up
    out[0] = line[m.size]


def _isotonic(x, weight, out):
    sums, weights = np.empty(x.size, F), np.empty(x.size, F)
    ends = np.empty(x.size, np.int64)
    top = 0
    for i in range(x.size):
        total, w = x[i] * weight[i], weight[i]
        while top > 0 and sums[top - 1] * w >= total * weights[top - 1]:
            top -= 1
            total += sums[top]
            w += weights[top]
        sums[top], weights[top], ends[top] = total, w, i + 1
        top += 1
    begin = 0
    for k in range(top):
        for i in range(begin, ends[k]):
            out[i] = sums[k] / weights[k]
        begin = ends[k]


def _shortest_path(cost, out):
    height, width = cost.shape
    best = np.full(cost.shape, F(np.inf))
    best[0, 0] = cost[0, 0] * cost[0, 0]
    queue = [(best[0, 0], 0, 0)]
    while queue:
        so_far, y, x = heapq.heappop(queue)
        if so_far > best[y, x]:
            continue
        for i, j in ((y, x - 1), (y, x + 1), (y - 1, x), (y + 1, x)):
            if 0 <= i < height and 0 <= j < width:
                path = so_far + cost[i, j] * cost[i, j]
                if path < best[i, j]:
                    best[i, j] = path
                    heapq.heappush(queue, (path, i, j))
    out[0] = best[-1, -1]


def _simulate(arrival, service, waiting, server):
    free = np.zeros(2, F)
    for i in np.argsort(arrival):
        first = np.argmin(free)
        begin = max(free[first], arrival[i])
        waiting[i] = begin - arrival[i]
        server[i] = first
        free[first] = begin + service[i] * service[i]


_BODIES = {
    "exponential smoothing": _smoothing,
    "Lotka-Volterra, RK4": _lotka_volterra,
    "HMM, 4 states": _hmm,
    "Kalman filter, 2 x 2": _kalman,
    "GARCH(1, 1)": _garch,
    "cubic spline, 33 knots": _spline,
    "soft-DTW": _soft_dtw,
    "isotonic regression": _isotonic,
    "shortest path": _shortest_path,
    "queue with two servers": _simulate,
}


def function(name, axes):
    """A generalized ufunc of f32 with these axes, compiled."""
    operands, results = axes.split("->")
    types = ["float32[:, :]" if "h" in operands else "float32[:]"]
    types *= operands.count("(")
    types += ["float32[:]", "int32[:]"][: results.count("(")]
    signature = f"void({', '.join(types)})"
    return numba.guvectorize([signature], axes)(_BODIES[name])
