"""accelerate: small matrices, factorized and solved.

The fuzzer draws matrices, functions of numpy and derivatives; beside the
kernels are tests of every size, flag and pivot.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import both, definite, matrices, program

jax.config.update("jax_enable_x64", True)

TARGET = "@xla_ffi_accelerate.linalg_"
LINALG = ["linalg"]


def check(f, *arguments, is_called=True):
    """The results agree within 300 eps of the largest of a matrix."""
    wants, gots, text = both(f, *arguments, names=LINALG)
    assert (TARGET in text) == is_called and "lapack" not in text
    for want, got in zip(wants, gots, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if not np.issubdtype(want.dtype, np.floating):
            np.testing.assert_array_equal(got, want)
            continue
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        axes = tuple(range(1, want.ndim))
        size = np.nanmax(np.abs(want), axes, keepdims=True, initial=0)
        error = np.abs(got - want) / np.where(size == 0, 1, size)
        bound = 300 * np.finfo(want.dtype).eps
        assert (np.isnan(want) | (error <= bound)).all()


@pytest.mark.parametrize("n, left", [(1, True), (4, False), (5, True)])
def test_many_vectors(n, left):
    """They are written out, for 5 rows only if each is a column."""
    well = matrices(8)[:2, :n, :n] / 4 + 2 * np.eye(n, dtype=np.float32)
    many = np.random.default_rng(0).standard_normal((2, n, 8192), np.float32)
    many[0, 0, 5] = np.nan

    def solve(a, b):
        b = b if left else b.swapaxes(-1, -2)
        options = {"left_side": left, "lower": True}
        return jax.lax.linalg.triangular_solve(a, b, **options)

    check(
        lambda a, b: (solve(a, b), solve(a[1], b[1])),
        well,
        many,
        is_called=False,
    )
    for columns, is_called in ((8192, False), (8191, True)):
        operands = well[1], many[1, :, :columns]
        text = program(solve, *operands, names=LINALG)
        assert ("custom_call" in text) == is_called
    right = functools.partial(jax.lax.linalg.triangular_solve, lower=True)
    text = program(right, well[1], many[1].T, names=LINALG)
    assert ("custom_call" in text) == (n == 5)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_many_orthogonal_factors(mode):
    made = matrices(8, np.float32, 256)
    shapes = (2, 2), (4, 4), (8, 3), (3, 4)
    some = [made[:, :m, :n].copy() for m, n in shapes]
    for a in some:
        a[3], a[5] = 0, np.eye(*a.shape[1:])
    factor = functools.partial(jnp.linalg.qr, mode=mode)
    every = lambda some: [factor(a) for a in some]  # noqa: E731
    check(every, some, is_called=False)
    assert "custom_call" not in program(every, some, names=LINALG)
    assert "custom_call" in program(factor, some[0][1:], names=LINALG)


def test_singular_matrices_alone_are_infinite_or_nan():
    a, b = matrices(4), matrices(4, seed=1)
    a[3] = 0
    a[7, :, 2] = 0
    a[9] = np.nan
    a[11, 2] = a[11, 1]
    wants, gots, _ = both(jax.lax.linalg.lu, a, names=LINALG)
    usual = np.delete(np.arange(len(a)), [9, 11])
    for want, got in zip(wants, gots, strict=True):
        np.testing.assert_allclose(
            got[usual], want[usual], rtol=1e-4, atol=1e-5
        )
    (want,), (got,), _ = both(jnp.linalg.solve, a, b, names=LINALG)
    finite = [np.isfinite(x).all((1, 2)) for x in (got, want)]
    assert not finite[0][[3, 7, 9]].any()
    np.testing.assert_array_equal(*(np.delete(f, 11) for f in finite))


def test_matrices_that_are_not_definite_alone_are_nan():
    a = definite(4)
    a[2] = -a[2]
    a[5, 3, 3] = -100
    a[8, 1, 1] = np.nan
    a[9] = 0
    a[10, 0, 3] = np.nan  # above the diagonal, and not read
    f = functools.partial(jax.lax.linalg.cholesky, symmetrize_input=False)
    check(f, a)
    _, (got,), _ = both(f, a, names=LINALG)
    assert np.isnan(np.tril(got[[2, 5, 8, 9]])).any((1, 2)).all()
    assert np.isfinite(got[10]).all()


def test_what_is_called():
    a, b = matrices(16), matrices(16)[..., :3]

    def every(a, b):
        factors = jax.scipy.linalg.lu_factor(a)
        solved = jax.scipy.linalg.lu_solve(factors, b)
        inverse, volume = jnp.linalg.inv(a), jnp.linalg.slogdet(a)
        slope = jax.grad(lambda a: jnp.linalg.solve(a, b).sum())(a)
        return solved, inverse, volume, slope, jnp.linalg.cholesky(a)

    text = program(every, a, b, names=LINALG)
    assert TARGET in text and "lapack" not in text


def test_what_is_left_to_xla():
    a = matrices(4)
    for other in (
        matrices(17),
        a[:3],
        a[0],
        a[:, :3],
        a[:0],
        a.astype(np.complex64),
    ):
        assert TARGET not in program(jax.lax.linalg.lu, other, names=LINALG)
    text = program(jnp.linalg.cholesky, definite(17), names=LINALG)
    assert TARGET not in text
