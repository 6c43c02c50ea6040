"""Filters and likelihoods of a time series, as their users write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp

from loop_programs import Program

STEPS = 2000


def _series(*shape: int) -> Any:
    random = np.random.default_rng(7)
    return jnp.asarray(random.standard_normal(shape), jnp.float32)


def tracker(noise: Any) -> tuple[Any, Any, Any, Any]:
    """A point in the plane, of which the place is seen: 4 states, 2 values."""
    step = 0.1
    move = jnp.eye(4, dtype=jnp.float32).at[[0, 1], [2, 3]].set(step)
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
    model = tracker(noise)
    start = jnp.zeros(4), jnp.eye(4)
    return lax.scan(lambda c, y: _kalman_step(model, c, y), start, ys)[1]


def kalman(noise: Any, ys: Any) -> Any:
    """The log likelihood of a series by a Kalman filter."""
    return jnp.sum(_kalman_all(noise, ys)[-1])


def smoother(noise: Any, ys: Any) -> Any:
    """Means by Rauch, Tung and Striebel's smoother."""
    move = tracker(noise)[0]
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


def extended(noise: Any, ys: Any) -> Any:
    """An extended Kalman filter of a pendulum, of which the sine is seen."""

    def move(x: Any) -> Any:
        return jnp.stack(
            [x[0] + 0.05 * x[1], x[1] - 0.05 * 9.8 * jnp.sin(x[0])]
        )

    def see(x: Any) -> Any:
        return jnp.sin(x[:1])

    def step(carry: Any, y: Any) -> Any:
        mean, spread = carry
        turn = jax.jacfwd(move)(mean)
        mean = move(mean)
        spread = turn @ spread @ turn.T + noise * jnp.eye(2)
        slope = jax.jacfwd(see)(mean)
        seen = slope @ spread @ slope.T + 0.5
        gain = jnp.linalg.solve(seen, slope @ spread).T
        mean = mean + gain @ (y - see(mean))
        return (mean, spread - gain @ slope @ spread), mean

    return lax.scan(step, (jnp.zeros(2), jnp.eye(2)), ys)[1]


def hmm(logits: Any, scores: Any) -> Any:
    """The log likelihood of a hidden Markov model of 8 states."""
    moves = jax.nn.log_softmax(logits, -1)

    def step(alpha: Any, score: Any) -> Any:
        return logsumexp(alpha[:, None] + moves, 0) + score, None

    return logsumexp(lax.scan(step, jnp.zeros(8), scores)[0])


def garch(parameters: Any, returns: Any) -> Any:
    """The log likelihood of GARCH(1, 1)."""
    level, shock, memory = jax.nn.sigmoid(parameters)

    def step(variance: Any, x: Any) -> Any:
        fit = jnp.log(variance) + x * x / variance
        return level + shock * x * x + memory * variance, fit

    return -0.5 * jnp.sum(lax.scan(step, jnp.float32(1), returns)[1])


def median_filter(start: Any, xs: Any) -> Any:
    """The median of the last 5 values."""

    def step(window: Any, x: Any) -> Any:
        window = jnp.roll(window, 1).at[0].set(x)
        return window, jnp.median(window)

    return lax.scan(step, jnp.full(5, start), xs)[1]


def programs() -> Iterator[Program]:
    """All of them."""
    noise = jnp.float32(0.1)
    yield Program("Kalman filter", kalman, (noise, _series(STEPS, 2)), True)
    yield Program("RTS smoother", smoother, (noise, _series(STEPS, 2)))
    yield Program(
        "extended Kalman filter", extended, (noise, _series(STEPS, 1))
    )
    scores = (_series(8, 8), _series(STEPS, 8))
    yield Program("hidden Markov model", hmm, scores, True)
    garches = (jnp.float32([-2, -2, 1]), _series(STEPS))
    yield Program("GARCH likelihood", garch, garches, True)
    yield Program(
        "running median", median_filter, (jnp.float32(0), _series(STEPS))
    )
