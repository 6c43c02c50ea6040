"""Loops of small states, as their users write them; a call is all steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

STEPS = 2000
# Name -> a function, and its arguments.
Loops = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def program(name: str) -> Callable[[], Any]:
    """A call of the loop of that name."""
    run, arguments = loops()[name]
    return functools.partial(jax.jit(run), *arguments)


def _normal(*shape: int) -> Any:
    random = np.random.default_rng(7)
    return jnp.asarray(random.standard_normal(shape), jnp.float32)


def _steps(count: int = STEPS) -> Any:
    return jnp.arange(count, dtype=jnp.float32)


# Filters and likelihoods of a time series.


def _tracker(noise: Any) -> tuple[Any, Any, Any, Any]:
    """A point in the plane, of which the place is seen: 4 states, 2 values."""
    move = jnp.eye(4, dtype=jnp.float32).at[[0, 1], [2, 3]].set(0.1)
    see = jnp.eye(2, 4, dtype=jnp.float32)
    return move, see, noise * jnp.eye(4), 0.5 * jnp.eye(2)


def _kalman_step(model: Any, carry: Any, y: Any) -> Any:
    move, see, drift, error = model
    mean, spread = carry
    mean = move @ mean
    spread = move @ spread @ move.T + drift
    seen = see @ spread @ see.T + error
    gain = jnp.linalg.solve(seen, see @ spread).T
    rest = y - see @ mean
    fit = rest @ jnp.linalg.solve(seen, rest) + jnp.log(jnp.linalg.det(seen))
    after = mean + gain @ rest, spread - gain @ see @ spread
    return after, (mean, spread, *after, -0.5 * fit)


def _kalman_all(noise: Any, ys: Any) -> Any:
    model = _tracker(noise)
    start = jnp.zeros(4), jnp.eye(4)
    return lax.scan(lambda c, y: _kalman_step(model, c, y), start, ys)[1]


def kalman(noise: Any, ys: Any) -> Any:
    """The log likelihood of a series by a Kalman filter."""
    return jnp.sum(_kalman_all(noise, ys)[-1])


def smoother(noise: Any, ys: Any) -> Any:
    """Means by Rauch, Tung and Striebel's smoother."""
    move = _tracker(noise)[0]
    predicted, spreads, means, afters, _ = _kalman_all(noise, ys)

    def back(carry: Any, xs: Any) -> Any:
        later, later_predicted, later_spread = carry
        mean, after, own_predicted, own_spread = xs
        gain = jnp.linalg.solve(later_spread, move @ after).T
        smoothed = mean + gain @ (later - later_predicted)
        return (smoothed, own_predicted, own_spread), smoothed

    last = means[-1], predicted[-1], spreads[-1]
    rest = (means[:-1], afters[:-1], predicted[:-1], spreads[:-1])
    return lax.scan(back, last, rest, reverse=True)[1]


def hmm(logits: Any, scores: Any) -> Any:
    """The log likelihood of a hidden Markov model of 8 states."""
    moves = jax.nn.log_softmax(logits, -1)

    def step(alpha: Any, score: Any) -> Any:
        return logsumexp(alpha[:, None] + moves, 0) + score, None

    return logsumexp(lax.scan(step, jnp.zeros(8), scores)[0])


def median_filter(start: Any, xs: Any) -> Any:
    """The median of the last 5 values."""

    def step(window: Any, x: Any) -> Any:
        window = jnp.roll(window, 1).at[0].set(x)
        return window, jnp.median(window)

    return lax.scan(step, jnp.full(5, start), xs)[1]


# Simulations, controllers, solvers, samplers and networks.


def rk4(mu: Any, times: Any) -> Any:
    """Van der Pol's oscillator by the classical method of Runge and Kutta."""
    h = 0.01

    def slope(y: Any) -> Any:
        return jnp.stack([y[1], mu * (1 - y[0] * y[0]) * y[1] - y[0]])

    def step(y: Any, _: Any) -> Any:
        a = slope(y)
        b = slope(y + 0.5 * h * a)
        c = slope(y + 0.5 * h * b)
        d = slope(y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d), None

    return jnp.sum(lax.scan(step, jnp.float32([2, 0]), times)[0])


def leapfrog(mass: Any, times: Any) -> Any:
    """Hamiltonian dynamics with a full mass matrix of 4."""

    def step(carry: Any, _: Any) -> Any:
        place, momentum = carry
        momentum = momentum - 0.05 * place
        place = place + 0.1 * jnp.linalg.solve(mass, momentum)
        return (place, momentum - 0.05 * place), None

    start = jnp.ones(4), jnp.arange(4.0)
    return jnp.sum(lax.scan(step, start, times)[0][0])


def lqr(cost: Any, times: Any) -> Any:
    """Riccati's recursion of a cart with a pole: 4 states, 1 control."""
    move = jnp.eye(4).at[[0, 1, 2], [1, 2, 3]].set(0.05).at[3, 2].set(0.4)
    push = jnp.float32([[0], [0.05], [0], [-0.1]])

    def step(value: Any, _: Any) -> Any:
        own = cost + push.T @ value @ push
        gain = jnp.linalg.solve(own, push.T @ value @ move)
        value = jnp.eye(4) + move.T @ value @ (move - push @ gain)
        return 0.5 * (value + value.T), gain

    return lax.scan(step, jnp.eye(4), times)[1]


def newton(start: Any, times: Any) -> Any:
    """Newton's iteration for three equations, from many starts in turn."""

    def residual(x: Any) -> Any:
        return jnp.stack(
            [
                x[0] ** 2 + x[1] ** 2 + x[2] ** 2 - 3,
                x[0] * x[1] - x[2],
                jnp.exp(x[0] - 1) - x[1],
            ]
        )

    def step(x: Any, time: Any) -> Any:
        slope = jax.jacfwd(residual)(x)
        x = x - jnp.linalg.solve(slope, residual(x))
        is_start = jnp.mod(time, 8) == 7
        return jnp.where(is_start, start + 1e-4 * time, x), jnp.sum(x)

    return lax.scan(step, start, times)[1]


def metropolis(width: Any, times: Any) -> Any:
    """A Metropolis sampler of 8 numbers, which draws in the loop."""

    def step(carry: Any, _: Any) -> Any:
        key, x = carry
        key, one, other = jax.random.split(key, 3)
        new = x + width * jax.random.normal(one, (8,))
        gain = 0.5 * (jnp.sum(x * x) - jnp.sum(new * new))
        is_taken = jnp.log(jax.random.uniform(other)) < gain
        return (key, jnp.where(is_taken, new, x)), x[0]

    return lax.scan(step, (jax.random.key(0), jnp.zeros(8)), times)[1]


def lstm(w: Any, xs: Any) -> Any:
    """A recurrent network's loss of weights and a sequence."""

    def step(carry: Any, x: Any) -> Any:
        hidden, cell = carry
        i, f, g, o = jnp.split(w @ hidden + x, 4)
        kept = jax.nn.sigmoid(f) * cell
        cell = kept + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None

    zero = jnp.zeros(w.shape[1], jnp.float32)
    return jnp.sum(lax.scan(step, (zero, zero), xs)[0][0])


# Loops over 8 floats with one operation in each.


def _of_matrix(rows: int, run: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a positive definite matrix that the floats decide."""

    def of(x: Any) -> Any:
        a = jnp.resize(x, (rows, rows)) * 0.1
        return jnp.sum(run(a @ a.T + jnp.eye(rows)))

    return of


def _drawn(draw: Callable[..., Any]) -> Callable[[Any], Any]:
    def of(x: Any) -> Any:
        words = lax.bitcast_convert_type(x[:2], jnp.uint32)
        return draw(jax.random.wrap_key_data(words), x.shape)

    return of


def _operations() -> Iterator[tuple[str, Callable[[Any], Any]]]:
    for rows in (4, 8, 12):

        def product(x: Any, n: int = rows) -> Any:
            return jnp.sum(jnp.resize(x, (n, n)) @ jnp.eye(n))

        yield f"product of {rows} x {rows}", product
    for rows in (2, 3, 4):
        solve = _of_matrix(rows, lambda a: jnp.linalg.solve(a, a[0]))
        yield f"solve of {rows} rows", solve
    yield "inverse of 3 rows", _of_matrix(3, jnp.linalg.inv)
    yield "Cholesky of 3 rows", _of_matrix(3, jnp.linalg.cholesky)
    yield "QR of 3 rows", _of_matrix(3, lambda a: jnp.linalg.qr(a)[1])
    yield "sort of 8", lambda x: jnp.sort(x)[::-1]
    yield "top_k (2) of 8", lambda x: jnp.sum(lax.top_k(x, 2)[0])
    yield "argmax of 8", lambda x: jnp.argmax(x).astype(x.dtype)
    yield "cumsum of 8", jnp.cumsum
    yield "uniform of 8", _drawn(jax.random.uniform)
    yield "normal of 8", _drawn(jax.random.normal)


@functools.cache
def loops() -> Loops:
    """All of them, in the page's order; the last argument has the steps."""
    noise, mu = jnp.float32(0.1), jnp.float32(1.5)
    mass = jnp.eye(4) + 0.2
    weights = _normal(4 * 16, 16) / 4
    found: Loops = {
        "Kalman filter": (kalman, (noise, _normal(STEPS, 2))),
        "hidden Markov model": (hmm, (_normal(8, 8), _normal(STEPS, 8))),
        "RK4": (rk4, (mu, _steps())),
        "leapfrog, full mass": (leapfrog, (mass, _steps())),
        "LSTM of 16": (lstm, (weights, _normal(500, 4 * 16))),
    }
    for name, (run, arguments) in list(found.items()):
        found[f"{name}, gradient"] = jax.grad(run), arguments
    start = jnp.float32([1.2, 0.8, 1.1])
    found |= {
        "RTS smoother": (smoother, (noise, _normal(STEPS, 2))),
        "running median": (median_filter, (jnp.float32(0), _normal(STEPS))),
        "LQR": (lqr, (jnp.float32([[0.1]]), _steps())),
        "Newton's iteration": (newton, (start, _steps())),
        "Metropolis": (metropolis, (jnp.float32(0.3), _steps())),
    }
    for name, operation in _operations():

        def run(x: Any, times: Any, of: Any = operation) -> Any:
            def step(x: Any, _: Any) -> Any:
                y = of(x)
                return x * 0.5 + 0.5 * y / (1 + jnp.abs(y)) + 0.1, None

            return lax.scan(step, x, times)[0]

        found[name] = run, (jnp.arange(1.0, 9.0), _steps(2 * STEPS))
    return found
