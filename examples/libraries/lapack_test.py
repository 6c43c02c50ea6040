"""SciPy's own numbers, and JAX's derivatives of its own solvers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import lapack

jax.config.update("jax_num_cpu_devices", 4)
A, B = np.random.default_rng(0).normal(size=(2, 8, 5, 5))
A = A + A.mT


def tridiagonal(lower, diagonal, upper, b):
    matrix = jnp.diag(lower, -1) + jnp.diag(diagonal) + jnp.diag(upper, 1)
    return jnp.linalg.solve(matrix, b)


def eigh(a):
    values, vectors = jnp.linalg.eigh(a)
    return vectors, values


BANDS = A[:, 0, 1:], A[:, 1], A[:, 2, :4], B
# The driver, what it computes by SciPy and by JAX, and operands.
DRIVERS = {
    "dgesv": (lapack.gesv, scipy.linalg.solve, jnp.linalg.solve, (A, B)),
    "zgesv": (
        *(lapack.complex_gesv, scipy.linalg.solve, jnp.linalg.solve),
        (A + 1j * B, B + 1j * A),
    ),
    "dgtsv": (
        lapack.gtsv,
        lambda lower, diagonal, upper, b: scipy.linalg.solve_banded(
            (1, 1), [[0, *upper], diagonal, [*lower, 0]], b
        ),
        tridiagonal,
        BANDS,
    ),
    "dsyevd": (
        *(lapack.syevd, lambda a: scipy.linalg.eigh(a)[::-1], eigh),
        (A,),
    ),
}


@pytest.mark.parametrize("name", DRIVERS)
def test_values_and_derivatives(name):
    driver, scipys, jaxs, operands = DRIVERS[name]
    for i in range(8):
        row = [x[i] for x in operands]
        for got, want in zip(
            jax.tree.leaves(driver(*row)),
            jax.tree.leaves(scipys(*row)),
            strict=True,
        ):
            np.testing.assert_allclose(abs(got), abs(want), 1e-9, 1e-11)

    def slopes(driver):
        def loss(*operands):
            results = jax.tree.leaves(driver(*operands))
            return sum(jnp.sum(jnp.abs(y) ** 4) for y in results)

        def square(*operands):
            gradient = jax.grad(loss)(*operands)
            return jnp.sum(jnp.abs(gradient) ** 2)

        every = tuple(range(len(operands)))
        return jax.vmap(
            lambda *row: [jax.grad(f, every)(*row) for f in (loss, square)]
        )

    mesh = jax.make_mesh((4,), ("rows",))
    rows = jax.device_put(operands, NamedSharding(mesh, P("rows")))
    got = jax.jit(slopes(driver))(*rows)
    want = jax.jit(slopes(jaxs))(*operands)
    if name == "dsyevd":  # the same for a and its transpose
        got, want = (jax.tree.map(lambda x: x + x.mT, y) for y in (got, want))
    for x, y in zip(*map(jax.tree.leaves, (got, want)), strict=True):
        scale = np.abs(y).max()
        np.testing.assert_allclose(x / scale, y / scale, 1e-8, 1e-9)
        assert not x.sharding.is_fully_replicated


def test_a_singular_matrix_is_an_error():
    with pytest.raises(Exception, match="the matrix is singular"):
        jax.block_until_ready(lapack.gesv(0 * A[0], B[0]))
