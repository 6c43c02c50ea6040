"""accelerate: factorizations of matrices in loops, written out."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_extra_options="
    + "xla_cpu_small_while_loop_byte_threshold=16384"
)

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import both
from loops_data import (
    check,
    definite,
    in_loop,
    matrices,
    of_each,
    squares,
    symmetric,
)

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)


def solves(a, b):
    return (
        jnp.linalg.solve(a, b),
        jnp.linalg.inv(a),
        jnp.linalg.slogdet(a)[1],
        jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b),
        jax.lax.linalg.lu(a),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_solutions(dtype):
    sizes = (1, 2, 3, 4)
    pairs = [
        (matrices(n, dtype), matrices(n, dtype, seed=1)[:, :, :1])
        for n in sizes
    ]
    ones = [(definite(n, dtype),) for n in sizes]
    gradient = jax.grad(squares(jnp.linalg.solve), (0, 1))
    for some in (pairs[:1], pairs[1:]):
        check(in_loop(of_each(solves)), *some)
        check(in_loop(of_each(gradient)), *some, tolerance=999)
    check(in_loop(of_each(jnp.linalg.cholesky)), *ones)
    gradient = jax.grad(squares(jnp.linalg.cholesky))
    check(in_loop(of_each(gradient)), *ones, tolerance=999)


def test_every_triangle():
    a, b = matrices(4, np.float32), matrices(4, np.float32, seed=1)[:, :, :3]
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    flags = list(itertools.product([False, True], repeat=len(names)))

    def solves(a, b):
        solve = jax.lax.linalg.triangular_solve
        return [
            solve(
                a, b if each[0] else b.T, **dict(zip(names, each, strict=True))
            )
            for each in flags
        ]

    check(in_loop(solves), a, b, tolerance=2**14)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_orthogonal_factors(mode):
    random = np.random.default_rng(0)
    factor = functools.partial(jnp.linalg.qr, mode=mode)
    shapes = itertools.product((1, 2, 3), repeat=2)
    made = [random.standard_normal((6, m, n)) for m, n in shapes]
    for a in made:
        a[0, :, 0] = 0  # nothing to reflect
        a[1] *= 1e30
    ordinary = [(a[2:],) for a in made]
    single = [(a.astype(np.float32),) for (a,) in ordinary]
    check(in_loop(of_each(factor)), *ordinary, *single)
    check(in_loop(of_each(lambda x: factor(x)[1])), *((a[:1],) for a in made))
    check(
        in_loop(of_each(lambda x: factor(x)[0])),
        *((a[1:2].astype(np.float32),) for a in made),
    )
    check(
        in_loop(jax.grad(squares(jnp.linalg.qr))),
        matrices(3, np.float64),
        tolerance=999,
    )


def with_signs(a):
    """Values, vectors whose largest element is positive, and residuals."""
    values, vectors = jnp.linalg.eigh(a)
    place = jnp.argmax(jnp.abs(vectors), 0)
    largest = jnp.take_along_axis(vectors, place[None], 0)
    return values, vectors * jnp.sign(largest)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_eigenvectors(dtype):
    many = [(symmetric(n, dtype),) for n in (1, 2, 3)]
    large = [(a * np.array(1e18, dtype),) for (a,) in many]
    gradient = jax.grad(
        lambda a: squares(jnp.linalg.eigh)(a) + jnp.linalg.eigh(a)[0][0]
    )
    check(in_loop(of_each(with_signs)), *many)
    check(in_loop(of_each(jnp.linalg.eigvalsh)), *large[1:])
    check(in_loop(of_each(gradient)), *many[1:], tolerance=9999)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_equal_eigenvalues(dtype):
    """Vectors stay at right angles, and the residuals small."""
    near = np.finfo(dtype).eps
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    values = [
        [1, 1, 1],
        [1, 1, 2],
        [2, 1, 1],
        [0, 0, 0],
        [1, 1 + near, 1 - near],
    ]
    values += [[1, 1e-8, -1e-8], [1e-30, 0, 1]]
    a = np.stack([turn @ np.diag(v) @ turn.T for v in values])
    a = np.concatenate([a, [np.diag([1, 2, 1]), np.zeros((3, 3))]])
    a = ((a + a.swapaxes(1, 2)) / 2).astype(dtype)
    with xla_ffi_accelerate.enabled("eigh"):
        found, vectors = map(np.asarray, jax.jit(in_loop(jnp.linalg.eigh))(a))
    assert (np.diff(found) >= -4 * near).all()
    unit = vectors.swapaxes(1, 2) @ vectors
    assert np.abs(unit - np.eye(3)).max() <= 16 * near
    residual = a @ vectors - vectors * found[:, None]
    assert np.abs(residual).max() <= 16 * near * np.abs(a).max()


def test_special_numbers():
    for special in (np.nan, np.inf, -np.inf):
        a = definite(3, np.float32)
        a[:, 1, 1] = special
        b = a.copy()
        b[:, 1, 2] = np.nan

        def every(a, b):
            values = jnp.linalg.eigh(b)[0], jnp.linalg.qr(b)[0]
            return jnp.linalg.cholesky(a), *values

        wants, gots, _ = both(in_loop(every), a, b, exact=False)
        np.testing.assert_array_equal(np.isnan(gots[0]), np.isnan(wants[0]))
        assert np.isnan(gots[1]).any(-1).all()
        assert np.isnan(gots[2]).any((-2, -1)).all()
    singular = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]])
    check(in_loop(jax.lax.linalg.lu), singular.astype(np.float32))
    check(in_loop(jnp.linalg.det), singular.astype(np.float32))
    check(in_loop(jnp.linalg.cholesky), -definite(3, np.float32))
    right = np.ones((3, 2), np.float32)
    solve, single = in_loop(jnp.linalg.solve), singular.astype(np.float32)
    wants, gots, _ = both(solve, single, right, exact=False)
    np.testing.assert_array_equal(np.isfinite(gots[0]), np.isfinite(wants[0]))
