"""Loops over 8 floats with one operation in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from loop_programs import Program

STEPS = 4000
Operation = Callable[[Any], Any]


def _next(x: Any, result: Any) -> Any:
    """The next operand: of the result, and of moderate size."""
    return x * 0.5 + 0.5 * result / (1 + jnp.abs(result)) + 0.1


def _matrix(rows: int, x: Any) -> Any:
    """A positive definite matrix that the vector decides."""
    a = jnp.resize(x, (rows, rows)) * 0.1
    return a @ a.T + jnp.eye(rows)


def _of_matrix(rows: int, run: Operation) -> Operation:
    return lambda x: jnp.sum(run(_matrix(rows, x)))


def _product(rows: int) -> Operation:
    return lambda x: jnp.sum(jnp.resize(x, (rows, rows)) @ jnp.eye(rows))


def _random(draw: Callable[..., Any]) -> Operation:
    def run(x: Any) -> Any:
        words = lax.bitcast_convert_type(x[:2], jnp.uint32)
        return draw(jax.random.wrap_key_data(words), x.shape)

    return run


def _operations() -> Iterator[tuple[str, Operation]]:
    linalg = jnp.linalg
    yield "exp, tanh, sums", lambda x: jnp.tanh(x) + jnp.sum(jnp.exp(-x))
    for rows in (4, 8, 12):
        yield f"product of {rows} x {rows}", _product(rows)
    for rows in (2, 3, 4):
        solve = _of_matrix(rows, lambda a: linalg.solve(a, a[0]))
        yield f"solve of {rows} rows", solve
    yield "inverse of 3 rows", _of_matrix(3, linalg.inv)
    yield "determinant of 3 rows", _of_matrix(3, linalg.det)
    yield "Cholesky of 3 rows", _of_matrix(3, linalg.cholesky)
    yield "QR of 3 rows", _of_matrix(3, lambda a: linalg.qr(a)[1])
    yield "sort of 8", lambda x: jnp.sort(x)[::-1]
    yield "top_k (2) of 8", lambda x: jnp.sum(lax.top_k(x, 2)[0])
    yield "argmax of 8", lambda x: jnp.argmax(x).astype(x.dtype)
    yield "cumsum of 8", jnp.cumsum
    yield "uniform of 8", _random(jax.random.uniform)
    yield "normal of 8", _random(jax.random.normal)


def _carried(start: Any, times: Any) -> Any:
    """An array of 4,096, of which each step sets an element."""

    def step(x: Any, time: Any) -> Any:
        at = time.astype(jnp.int32)
        return x.at[at].set(x[at] * 0.5 + time), None

    return lax.scan(step, start, times)[0]


def programs() -> Iterator[Program]:
    """All of them."""
    start = jnp.arange(1.0, 9.0)
    times = jnp.arange(STEPS, dtype=jnp.float32)
    for name, operation in _operations():

        def run(x: Any, times: Any, of: Operation = operation) -> Any:
            return lax.scan(lambda x, _: (_next(x, of(x)), None), x, times)[0]

        yield Program(name, run, (start, times))
    yield Program("one of 4,096 set", _carried, (jnp.ones(4096), times))
