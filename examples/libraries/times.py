"""The table of docs/external_library.md: examples beside `pure_callback`.

    tools/bazel run //examples/libraries:times [-- physics stiff]

The callback calls the function that the package has for Python. Both programs
take turns in one process, and medians count. No call starts with the numbers of
another one, so that what is kept between calls is only what a user would keep.
"""

from __future__ import annotations

import functools
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

# What is computed; by the kit, and by a callback; the start, and the rest.
Pair = tuple[str, Callable[..., Any], Callable[..., Any], Any, Any]


def by_callback(host: Callable[..., Any]) -> Callable[..., Any]:
    """An operation by a function of NumPy's arrays; its result is like x."""

    def operation(x, y):
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(
            lambda x, y: np.asarray(host(*map(np.asarray, (x, y))), x.dtype),
            *(result, x, y),
            vmap_method="broadcast_all",
        )

    return operation


def repeated(step: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Takes a state so many steps further."""

    def run(x, y):
        return jax.lax.fori_loop(0, count, lambda _, x: step(x, y), x)

    return run


def physics() -> Iterator[Pair]:
    """Rollouts, and 64 of them."""
    import mujoco

    import physics

    model = mujoco.MjModel.from_xml_string(physics.CART)
    data = mujoco.MjData(model)

    def host(x, u):
        out = np.empty_like(x)
        for i in np.ndindex(x.shape[:-1]):
            (data.qpos[:], data.qvel[:]), data.ctrl[:] = np.split(x[i], 2), u[i]
            mujoco.mj_step(model, data)
            out[i] = [*data.qpos, *data.qvel]
        return out

    steps = physics.step, by_callback(host)
    pair = [functools.partial(physics.rollout, step=step) for step in steps]
    x, us = np.array([0.0, 0.1, 0.0, 0.0]), np.sin(np.arange(100.0))[:, None]
    yield "MuJoCo: 100 steps", *pair, x, us
    mesh = jax.make_mesh((jax.device_count(),), ("worlds",))
    worlds = x + np.linspace(0, 0.5, 64)[:, None]
    worlds = jax.device_put(worlds, NamedSharding(mesh, P("worlds")))
    pair = [jax.vmap(f, (0, None)) for f in pair]
    yield "64 worlds on 4 devices", *pair, worlds, us


def sparse() -> Iterator[Pair]:
    """Steps of heat, all with one matrix."""
    import scipy.sparse

    import sparse

    line = scipy.sparse.diags_array(
        [-1.5, 4.0, -0.5], offsets=[-1, 0, 1], shape=(50, 50)
    )
    matrix = scipy.sparse.kronsum(line, line, "csc")

    def host(x, a):
        csc = a, matrix.indices, matrix.indptr
        return scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(csc), x)

    def step(x, a):
        return sparse.solve(matrix.indices, matrix.indptr, a, x)

    pair = [repeated(f, 20) for f in (step, by_callback(host))]
    yield "KLU: 20 solves of 2,500", *pair, np.ones(2500), matrix.data


def stiff() -> Iterator[Pair]:
    """Eight solutions of Robertson's reactions."""
    from sksundae.cvode import CVODE

    import stiff

    def solve(y, k):
        def rates(t, y, dy):
            dy[0] = k[1] * y[1] * y[2] - k[0] * y[0]
            dy[2] = k[2] * y[1] * y[1]
            dy[1] = -dy[0] - dy[2]

        solver = CVODE(rates, rtol=1e-9, atol=1e-14)
        return solver.solve([0, 40.0], y).y[-1]

    pair = [
        lambda y, k: stiff.react(y, k, 40.0),
        by_callback(np.vectorize(solve, signature="(n),(n)->(n)")),
    ]
    y, k = np.eye(8, 3, -9) + [1.0, 0, 0], np.array([[0.04, 1e4, 3e7]] * 8)
    yield "CVODE: 8 solutions", *pair, y, k


def lapack() -> Iterator[Pair]:
    """Tridiagonal systems."""
    import scipy.linalg

    import lapack

    def step(x, bands):
        return lapack.gtsv(bands[0, 1:], bands[1], bands[2, 1:], x)

    def host(x, bands):
        lower, diagonal, upper = bands
        bands = [[0, *upper[1:]], diagonal, [*lower[1:], 0]]
        return scipy.linalg.solve_banded((1, 1), bands, x)

    pair = [repeated(f, 20) for f in (step, by_callback(host))]
    bands = np.array([-1.0, 3, -1])[:, None] * np.ones(500)
    yield "LAPACK: 20 solves of 500", *pair, np.ones((500, 1)), bands


def nufft() -> Iterator[Pair]:
    """A gradient descent for the modes of a function at scattered points."""
    import finufft

    import nufft

    def normal(x, points):
        """The adjoint of the transform of x."""
        rest = {"eps": 1e-12, "nthreads": 1}
        values = finufft.nufft1d2(points, x, isign=1, **rest)
        return finufft.nufft1d1(points, values, x.size, isign=-1, **rest)

    def step(x, points):
        values = nufft.transform(x, points)
        return nufft.transform(values, points, modes=x.size)

    def descent(f):
        return repeated(lambda x, y: x - 1e-4 * f(x, y), 20)

    pair = [descent(f) for f in (step, by_callback(normal))]
    points = np.random.default_rng(0).uniform(-3, 3, 2000)
    yield "FINUFFT: 20 normal products", *pair, np.ones(128, complex), points


def medians(programs: list[Any], x: Any, y: Any) -> list[float]:
    """The medians of the seconds that calls take, which take turns."""
    taken: list[list[float]] = [[] for _ in programs]
    end = time.perf_counter() + 1
    while time.perf_counter() < end or len(taken[0]) < 5:
        x = jax.block_until_ready(x * (1 + 1e-9))
        for program, seconds in zip(programs, taken, strict=True):
            start = time.perf_counter()
            jax.block_until_ready(program(x, y))
            seconds.append(time.perf_counter() - start)
    return [statistics.median(seconds) for seconds in taken]


def main() -> None:
    """Prints a line for each pair, whose results are equal."""
    jax.config.update("jax_num_cpu_devices", 4)
    for pairs in (physics, sparse, stiff, lapack, nufft):
        name = pairs.__name__
        if name not in (sys.argv[1:] or name):
            continue
        module = pathlib.Path(__file__).with_name(f"{name}.py")
        lines = len(module.read_text().splitlines())
        for what, *functions, x, y in pairs():
            x, y = jnp.asarray(x), jnp.asarray(y)
            programs = [jax.jit(f).lower(x, y).compile() for f in functions]
            results = [program(x, y) for program in programs]
            np.testing.assert_allclose(*results, rtol=1e-5, atol=1e-8)
            kit, callback = medians(programs, x, y)
            print(
                f"| {what} | [`{name}.py`](../examples/libraries/{name}.py) "
                f"| {lines} | {1e3 * kit:.3g} ms | {1e3 * callback:.3g} ms "
                f"| {callback / kit:.3g} |"
            )


if __name__ == "__main__":
    main()
