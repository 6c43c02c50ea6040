"""CVODE's own numbers: as its manual prints them, and by scikit-sundae."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sksundae.cvode import CVODE

import stiff

Y, K = np.array([1.0, 0, 0]), np.array([0.04, 1e4, 3e7])
# SUNDIALS's example cvRoberts_dns.
PRINTED = {
    0.4: [9.851712e-01, 3.386380e-05, 1.479493e-02],
    40.0: [7.158017e-01, 9.185043e-06, 2.841891e-01],
    4000.0: [1.832320e-01, 8.942377e-07, 8.167671e-01],
}


def theirs(y, k, end):
    def rates(t, y, dy):
        forth, back = k[0] * y[0], k[1] * y[1] * y[2]
        dy[2] = k[2] * y[1] ** 2
        dy[0], dy[1] = back - forth, forth - back - dy[2]

    solver = CVODE(rates, rtol=1e-11, atol=1e-16)
    return solver.solve([0, end], y).y[-1]


@pytest.mark.parametrize("end", PRINTED)
def test_values(end):
    got = stiff.react(Y, K, end)
    np.testing.assert_allclose(got, theirs(Y, K, end), rtol=1e-6)
    np.testing.assert_allclose(got, PRINTED[end], rtol=1e-3)


def test_the_adjoint_is_a_difference():
    def loss(y, k):
        return jnp.sum(jnp.sin(stiff.react(y, k, 40.0)))

    x = np.stack([Y, K])
    grad = jax.jit(jax.grad(lambda x: loss(*x)))
    steps = 1e-4 * np.diag(np.where(x, x, 1e-3).ravel()).reshape(6, 2, 3)
    ends = [[theirs(*(x + s), 40.0), theirs(*(x - s), 40.0)] for s in steps]
    sums = np.sin(ends).sum(-1)
    want = (sums[:, 0] - sums[:, 1]) / (2 * steps.sum((1, 2)))
    np.testing.assert_allclose(grad(x).ravel(), want, rtol=4e-5)
    many = jax.jit(jax.vmap(grad))(np.stack([x, x * 0.9]))
    np.testing.assert_allclose(many[1], grad(x * 0.9), rtol=1e-12)
