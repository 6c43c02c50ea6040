"""Simulations, controllers, solvers and samplers, as their users write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from loop_programs import Program

STEPS = 2000


def _steps(count: int = STEPS) -> Any:
    return jnp.arange(count, dtype=jnp.float32)


def _van_der_pol(mu: Any, y: Any) -> Any:
    return jnp.stack([y[1], mu * (1 - y[0] * y[0]) * y[1] - y[0]])


def rk4(mu: Any, times: Any) -> Any:
    """Van der Pol's oscillator by the classical method of Runge and Kutta."""
    h = 0.01

    def step(y: Any, _: Any) -> Any:
        a = _van_der_pol(mu, y)
        b = _van_der_pol(mu, y + 0.5 * h * a)
        c = _van_der_pol(mu, y + 0.5 * h * b)
        d = _van_der_pol(mu, y + h * c)
        return y + h / 6 * (a + 2 * b + 2 * c + d), None

    return jnp.sum(lax.scan(step, jnp.float32([2, 0]), times)[0])


# Bogacki and Shampine, "A 3(2) pair of Runge-Kutta formulas", 1989.
def adaptive(mu: Any, times: Any) -> Any:
    """The same oscillator, the step's size chosen by an embedded error."""
    del times

    def is_left(carry: Any) -> Any:
        return carry[0] < STEPS

    def step(carry: Any) -> Any:
        count, y, h = carry
        a = _van_der_pol(mu, y)
        b = _van_der_pol(mu, y + 0.5 * h * a)
        c = _van_der_pol(mu, y + 0.75 * h * b)
        new = y + h * (2 / 9 * a + 1 / 3 * b + 4 / 9 * c)
        d = _van_der_pol(mu, new)
        error = h * (-5 / 72 * a + 1 / 12 * b + 1 / 9 * c - 1 / 8 * d)
        size = jnp.max(jnp.abs(error)) / 1e-4
        factor = 0.9 * jnp.maximum(size, 1e-3) ** (-1 / 3)
        h = h * jnp.clip(factor, 0.2, 5)
        return count + 1, jnp.where(size <= 1, new, y), h

    start = 0, jnp.float32([2, 0]), jnp.float32(0.01)
    return lax.while_loop(is_left, step, start)[1]


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


def pid(gains: Any, targets: Any) -> Any:
    """A PID controller of a mass on a spring."""

    def step(carry: Any, target: Any) -> Any:
        place, speed, total, last = carry
        error = target - place
        total = total + 0.01 * error
        force = gains @ jnp.stack([error, total, (error - last) / 0.01])
        speed = speed + 0.01 * (force - place - 0.1 * speed)
        return (place + 0.01 * speed, speed, total, error), place

    zero = jnp.float32(0)
    return lax.scan(step, (zero, zero, zero, zero), targets)[1]


def sir(rates: Any, times: Any) -> Any:
    """An epidemic: susceptible, infected, recovered."""

    def step(x: Any, _: Any) -> Any:
        new = rates[0] * x[0] * x[1]
        gone = rates[1] * x[1]
        return x + 0.05 * jnp.stack([-new, new - gone, gone]), None

    return jnp.sum(lax.scan(step, jnp.float32([0.99, 0.01, 0]), times)[0][2])


def rotation(angle: Any, times: Any) -> Any:
    """A rigid body that turns: products of 3 x 3."""
    zero = jnp.zeros_like(angle)
    c, s = jnp.cos(angle), jnp.sin(angle)
    turn = jnp.stack([c, -s, zero, s, c, zero, zero, zero, zero + 1])
    tilt = jnp.stack([zero + 1, zero, zero, zero, c, -s, zero, s, c])
    turns = turn.reshape(3, 3) @ tilt.reshape(3, 3)

    def step(pose: Any, _: Any) -> Any:
        pose = turns @ pose
        return pose, pose @ jnp.float32([1, 0, 0])

    return jnp.sum(lax.scan(step, jnp.eye(3), times)[1])


def quaternions(speed: Any, times: Any) -> Any:
    """A rigid body that turns, by quaternions."""

    def step(q: Any, _: Any) -> Any:
        w, x, y, z = q
        a, b, c = speed
        rate = jnp.stack(
            [
                -x * a - y * b - z * c,
                w * a + y * c - z * b,
                w * b - x * c + z * a,
                w * c + x * b - y * a,
            ]
        )
        q = q + 0.005 * rate
        return q / jnp.linalg.norm(q), None

    return lax.scan(step, jnp.float32([1, 0, 0, 0]), times)[0]


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


def cart_pole(weights: Any, times: Any) -> Any:
    """A cart with a pole, and the network that steers it."""
    inner, outer = weights

    def step(x: Any, _: Any) -> Any:
        force = 10 * jnp.tanh(outer @ jnp.tanh(inner @ x))[0]
        s, c = jnp.sin(x[2]), jnp.cos(x[2])
        pull = (force + 0.05 * x[3] ** 2 * s) / 1.1
        turn = (9.8 * s - c * pull) / (0.5 * (4 / 3 - 0.1 * c * c / 1.1))
        push = pull - 0.05 * turn * c / 1.1
        x = x + 0.02 * jnp.stack([x[1], push, x[3], turn])
        is_over = (jnp.abs(x[0]) > 2.4) | (jnp.abs(x[2]) > 0.2)
        return jnp.where(is_over, 0.01, x), is_over

    return lax.scan(step, jnp.full(4, 0.01), times)[1]


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


def _cell(kind: str, size: int) -> Any:
    """A recurrent network's loss of weights and a sequence."""
    gates = {"LSTM": 4, "GRU": 3}[kind]
    random = np.random.default_rng(size)
    scale = size**-0.5
    w = jnp.asarray(random.standard_normal((gates * size, size)) * scale)
    xs = jnp.asarray(random.standard_normal((500, gates * size)))

    def lstm(w: Any, carry: Any, x: Any) -> Any:
        hidden, cell = carry
        i, f, g, o = jnp.split(w @ hidden + x, 4)
        kept = jax.nn.sigmoid(f) * cell
        cell = kept + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None

    def gru(w: Any, carry: Any, x: Any) -> Any:
        hidden, _ = carry
        a, b, c = jnp.split(w @ hidden, 3)
        p, q, r = jnp.split(x, 3)
        reset, keep = jax.nn.sigmoid(a + p), jax.nn.sigmoid(b + q)
        new = jnp.tanh(r + reset * c)
        return (keep * hidden + (1 - keep) * new, new), None

    step = {"LSTM": lstm, "GRU": gru}[kind]
    zero = jnp.zeros(size, jnp.float32)

    def loss(w: Any, xs: Any) -> Any:
        end = lax.scan(lambda c, x: step(w, c, x), (zero, zero), xs)[0]
        return jnp.sum(end[0])

    arguments = w.astype(jnp.float32), xs.astype(jnp.float32)
    return Program(f"{kind} of {size}", loss, arguments, True)


def programs() -> Iterator[Program]:
    """All of them."""
    mu = jnp.float32(1.5)
    yield Program("RK4", rk4, (mu, _steps()), True)
    yield Program("adaptive steps", adaptive, (mu, _steps()))
    mass = jnp.eye(4) + 0.2
    yield Program("leapfrog, full mass", leapfrog, (mass, _steps()), True)
    yield Program("LQR", lqr, (jnp.float32([[0.1]]), _steps()))
    gains = jnp.float32([8, 2, 0.5])
    yield Program("PID controller", pid, (gains, jnp.sin(0.01 * _steps())))
    yield Program("SIR model", sir, (jnp.float32([0.5, 0.1]), _steps()), True)
    yield Program("rotation", rotation, (jnp.float32(0.01), _steps()), True)
    speed = jnp.float32([0.1, 0.2, 0.3])
    yield Program("quaternions", quaternions, (speed, _steps()))
    start = jnp.float32([1.2, 0.8, 1.1])
    yield Program("Newton's iteration", newton, (start, _steps()))
    random = np.random.default_rng(3)
    weights = tuple(
        jnp.asarray(random.standard_normal(shape), jnp.float32)
        for shape in ((16, 4), (1, 16))
    )
    yield Program("cart and pole", cart_pole, (weights, _steps()))
    yield Program("Metropolis", metropolis, (jnp.float32(0.3), _steps()))
    for kind in ("LSTM", "GRU"):
        for size in (16, 32, 64):
            yield _cell(kind, size)
