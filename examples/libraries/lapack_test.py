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
ZEROS = np.zeros((8, 1))


def scipys_bands(lower, diagonal, upper, b):
    bands = np.c_[ZEROS, upper], diagonal, np.c_[lower, ZEROS]
    return scipy.linalg.solve_banded((1, 1), np.stack(bands, 1), b)


def jaxs_bands(lower, diagonal, upper, b):
    matrix = jnp.diag(lower, -1) + jnp.diag(diagonal) + jnp.diag(upper, 1)
    return jnp.linalg.solve(matrix, b)


SOLVE = scipy.linalg.solve, jnp.linalg.solve
EIGH = lambda a: scipy.linalg.eigh(a)[::-1], lambda a: jnp.linalg.eigh(a)[::-1]
BANDS = A[:, 0, 1:], A[:, 1], A[:, 2, :4], B
# The driver; the same by SciPy, and by JAX; operands.
DRIVERS = {
    "dgesv": (lapack.gesv, *SOLVE, (A, B)),
    "zgesv": (lapack.complex_gesv, *SOLVE, (A + 1j * B, B + 1j * A)),
    "dgtsv": (lapack.gtsv, scipys_bands, jaxs_bands, BANDS),
    "dsyevd": (lapack.syevd, *EIGH, (A,)),
}


@pytest.mark.parametrize("name", DRIVERS)
def test_values_and_derivatives(name):
    driver, scipys, jaxs, operands = DRIVERS[name]
    results = [jax.tree.leaves(f(*operands)) for f in (driver, scipys)]
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(abs(got), abs(want), 1e-9, 1e-11)

    def slopes(driver):
        def loss(*operands):
            results = jax.tree.leaves(driver(*operands))
            return sum(jnp.sum(jnp.abs(y) ** 4) for y in results)

        def square(*operands):
            return jnp.sum(jnp.abs(jax.grad(loss)(*operands)) ** 2)

        every = tuple(range(len(operands)))
        grads = [jax.grad(f, every) for f in (loss, square)]
        return jax.jit(jax.vmap(lambda *row: [f(*row) for f in grads]))

    mesh = jax.make_mesh((4,), ("rows",))
    rows = jax.device_put(operands, NamedSharding(mesh, P("rows")))
    results = slopes(driver)(*rows), slopes(jaxs)(*operands)
    for got, want in zip(*map(jax.tree.leaves, results), strict=True):
        if name == "dsyevd":  # the same for a and its transpose
            got, want = got + got.mT, want + want.mT
        scale = np.abs(want).max()
        np.testing.assert_allclose(got / scale, want / scale, 1e-8, 1e-9)
        assert not got.sharding.is_fully_replicated


def test_a_singular_matrix_is_an_error():
    with pytest.raises(Exception, match="the matrix is singular"):
        jax.block_until_ready(lapack.gesv(0 * A[0], B[0]))
