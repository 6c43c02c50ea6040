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
from loops_data import (
    both,
    check,
    definite,
    in_loop,
    matrices,
    of_each,
    of_release,
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


@pytest.mark.parametrize("left", [True, False])
def test_every_triangle(left):
    a, b = matrices(4, np.float32), matrices(4, np.float32, seed=1)[:, :, :3]
    names = ("lower", "transpose_a", "unit_diagonal")
    flags = list(itertools.product([False, True], repeat=len(names)))

    def solves(a, b):
        solve = jax.lax.linalg.triangular_solve
        return [
            solve(a, b, left_side=left, **dict(zip(names, each, strict=True)))
            for each in flags
        ]

    check(in_loop(solves), a, b if left else b.swapaxes(1, 2), tolerance=2**14)


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
@pytest.mark.parametrize("n", [of_release(1, True), 2, 3])
def test_eigenvectors(n, dtype):
    check(in_loop(with_signs), symmetric(n, dtype))
    check(
        in_loop(jnp.linalg.eigvalsh),
        symmetric(n, dtype) * np.array(1e18, dtype),
    )
    gradient = jax.grad(
        lambda a: squares(jnp.linalg.eigh)(a) + jnp.linalg.eigh(a)[0][0]
    )
    check(in_loop(gradient), symmetric(n, dtype), tolerance=9999)


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
        wants, gots, _ = both(in_loop(lambda m: jnp.linalg.cholesky(m)), a)
        np.testing.assert_array_equal(np.isnan(gots[0]), np.isnan(wants[0]))
        a[:, 1, 2] = np.nan
        for f in (jnp.linalg.eigh, jnp.linalg.qr):
            _, gots, _ = both(in_loop(f), a)
            assert all(np.isnan(x).any((-2, -1)).all() for x in gots[:1])
    singular = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]])
    check(in_loop(jax.lax.linalg.lu), singular.astype(np.float32))
    check(in_loop(jnp.linalg.det), singular.astype(np.float32))
    check(in_loop(jnp.linalg.cholesky), -definite(3, np.float32))
    wants, gots, _ = both(
        in_loop(jnp.linalg.solve),
        singular.astype(np.float32),
        np.ones((3, 2), np.float32),
    )
    np.testing.assert_array_equal(np.isfinite(gots[0]), np.isfinite(wants[0]))
