"""Cameras find out where they are: 10,000 poses from what each one sees.

A Gauss-Newton step of bundle adjustment, as in Triggs and others (2000), with
the points known. Every camera projects its points (products of 4 x 4 matrices),
linearizes what it gets wrong, solves its 6 x 6 normal equations, and moves (a
rigid motion, again a 4 x 4 matrix). At the end every pose is inverted, which
says where in the room its camera stands.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

NAMES = ("linalg",)
TOLERANCE = 1e-3

POINTS = 7
STEPS = 4


def _motion(twist: jax.Array) -> jax.Array:
    """The rigid motion [4, 4] of a small rotation and a translation [6]."""
    a, b, c, x, y, z = twist
    zero, one = jnp.zeros_like(a), jnp.ones_like(a)
    turn = jnp.array([[zero, -c, b], [c, zero, -a], [-b, a, zero]])
    # Cayley's transform is a rotation, whatever the angle.
    eye = jnp.eye(3, dtype=twist.dtype)
    rotation = jnp.linalg.solve(eye - turn / 2, eye + turn / 2)
    shift = jnp.stack([x, y, z])[:, None]
    last = jnp.stack([zero, zero, zero, one])[None]
    return jnp.concatenate([jnp.concatenate([rotation, shift], 1), last])


def _project(pose: jax.Array, points: jax.Array) -> jax.Array:
    """Where a camera sees its points [point, 4]: [point, 2]."""
    seen = points @ pose.T
    return seen[:, :2] / seen[:, 2:3]


def arguments(short: bool) -> tuple[jax.Array, ...]:
    """Points of each camera, what it sees of them, and a guess of its pose."""
    cameras = 50 if short else 10_000
    keys = jax.random.split(jax.random.key(0), 4)
    points = jax.random.uniform(keys[0], (cameras, POINTS, 4), minval=-1.0)
    points = points.at[..., 2].add(4).at[..., 3].set(1)
    twist = jax.random.normal(keys[1], (cameras, 6)) / 10
    seen = jax.vmap(_project)(jax.vmap(_motion)(twist), points)
    noise = jax.random.normal(keys[2], seen.shape) * 1e-3
    guess = jnp.broadcast_to(jnp.eye(4), (cameras, 4, 4))
    return points, seen + noise, guess


def program(
    points: jax.Array, seen: jax.Array, pose: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Where the cameras stand [camera, 4, 4]; the mean error of each."""

    def refine(
        pose: jax.Array, points: jax.Array, seen: jax.Array
    ) -> jax.Array:
        def error(twist: jax.Array) -> jax.Array:
            return (_project(_motion(twist) @ pose, points) - seen).ravel()

        at_rest = jnp.zeros(6, pose.dtype)
        jacobian = jax.jacfwd(error)(at_rest)
        damped = jacobian.T @ jacobian + 1e-4 * jnp.eye(6, dtype=pose.dtype)
        twist = jnp.linalg.solve(damped, jacobian.T @ error(at_rest))
        return _motion(-twist) @ pose

    def step(_: jax.Array, pose: jax.Array) -> jax.Array:
        return jax.vmap(refine)(pose, points, seen)

    pose = jax.lax.fori_loop(0, STEPS, step, pose)
    error = jax.vmap(_project)(pose, points) - seen
    return jnp.linalg.inv(pose), jnp.sqrt(jnp.square(error).mean((1, 2)))
