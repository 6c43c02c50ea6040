"""accelerate: small matrices, factorized, solved, and their eigenvectors."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import both, program

jax.config.update("jax_enable_x64", True)

TARGET = "@xla_ffi_accelerate.linalg_"
EIGH = f"{TARGET}eigh("
SIZES = (1, 2, 3, 4, 7, 8, 13, 16)
LINALG = ["linalg"]


def check(f, *arguments, is_called=True, has_others=False, tolerance=300):
    """The results agree within so many eps of the largest of a matrix."""
    wants, gots, text = both(f, *arguments, names=LINALG)
    assert (TARGET in text) == is_called
    assert ("lapack" in text) == has_others
    for want, got in zip(wants, gots, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if not np.issubdtype(want.dtype, np.floating):
            np.testing.assert_array_equal(got, want)
            continue
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        axes = tuple(range(1, want.ndim))
        size = np.nanmax(np.abs(want), axes, keepdims=True, initial=0)
        error = np.abs(got - want) / np.where(size == 0, 1, size)
        bound = tolerance * np.finfo(want.dtype).eps
        assert (np.isnan(want) | (error <= bound)).all()


def matrices(n, dtype=np.float32, count=37, seed=0):
    """Well conditioned, and any row may have the pivot."""
    random = np.random.default_rng((seed, n))
    a = random.standard_normal((count, n, n)) + 3 * np.eye(n)
    return np.stack([random.permutation(m) for m in a]).astype(dtype)


def definite(n, dtype=np.float32):
    a = matrices(n, np.float64)
    return (a @ a.swapaxes(1, 2) + np.eye(n)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factorizations(dtype):
    pairs = [(matrices(n, dtype), definite(n, dtype)) for n in SIZES]

    def every(pairs):
        lu, cholesky = jax.lax.linalg.lu, jnp.linalg.cholesky
        return [(lu(a), cholesky(b)) for a, b in pairs]

    check(every, pairs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_triangular_solves(dtype):
    n = 5
    a, b = matrices(n, dtype), matrices(n, dtype, seed=1)[..., :3]
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    flags = itertools.product([False, True], repeat=len(names))
    given = [dict(zip(names, each, strict=True)) for each in flags]

    def every(a, b):
        solve = jax.lax.linalg.triangular_solve
        return [
            solve(a, b if f["left_side"] else b.swapaxes(1, 2), **f)
            for f in given
        ]

    well = a / 4 + 2 * np.eye(n, dtype=dtype)
    check(every, well, b)


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


@pytest.mark.parametrize("n", [1, 2, 3, 8, 16])
def test_functions_of_numpy(n):
    a, b = matrices(n, np.float64), matrices(n, np.float64, seed=1)

    def every(a, b, c):
        factor = jnp.linalg.cholesky(c), True
        return (
            jnp.linalg.solve(a, b),
            jnp.linalg.inv(a),
            jnp.linalg.slogdet(a),
            jax.scipy.linalg.cho_solve(factor, b),
        )

    check(every, a, b, definite(n, np.float64))


def test_transformations():
    a, b = matrices(4, np.float64), matrices(4, np.float64, seed=1)

    def loss(a, b):
        return (jnp.linalg.solve(a, b) ** 2).sum()

    def every(a, b, c):
        solve, batch = jax.vmap(jnp.linalg.solve), a.reshape(37, 1, 4, 4)
        return (
            jax.grad(loss, (0, 1))(a, b),
            jax.vmap(jax.grad(loss))(a, b),
            jax.jacfwd(jnp.linalg.inv)(a[:4]),
            jax.grad(lambda a: jnp.linalg.cholesky(a).sum())(c),
            solve(batch, b[:, None]),
        )

    # Of one matrix, a derivative solves for all the others.
    check(every, a, b, definite(4, np.float64), has_others=True)


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


def test_first_of_equal_pivots():
    a = np.sign(matrices(5, count=200)) * np.float32(2)
    wants, gots, _ = both(jax.lax.linalg.lu, a, names=LINALG)
    np.testing.assert_array_equal(gots[1][:, 0], wants[1][:, 0])
    assert (gots[1][:, 0] == 0).all()


def test_what_is_left_to_xla():
    a, names = matrices(4), ["linalg", "eigh"]
    for other in (
        matrices(17),
        a[:3],
        a[0],
        a[:, :3],
        a[:0],
        a.astype(np.complex64),
    ):
        assert TARGET not in program(jax.lax.linalg.lu, other, names=names)
        if other.shape[-1] == other.shape[-2]:
            text = program(jnp.linalg.eigh, other, names=names)
            assert TARGET not in text
    assert TARGET not in program(jnp.linalg.cholesky, definite(17), names=names)
    assert TARGET not in program(jnp.linalg.eigh, matrices(5), names=names)
    assert TARGET not in program(jnp.linalg.eigh, a, names=LINALG)
    some = functools.partial(jax.lax.linalg.eigh, subset_by_index=(0, 4))
    assert EIGH in program(some, a, names=names)  # those are all


BOUND = 16  # eps


def eigh(f, *arguments):
    """The results under `enable("eigh")`, which calls the kernel."""
    _, got, text = both(f, *arguments, names=["eigh"])
    assert EIGH in text
    return got


def symmetric(n, dtype, count=301, seed=0):
    a = np.random.default_rng((seed, n)).standard_normal((count, n, n))
    return (a + a.swapaxes(1, 2)).astype(dtype)


def check_eigh(a, w, v):
    """Values as LAPACK has them, and vectors that are theirs."""
    assert (w.dtype, v.dtype, v.shape) == (a.dtype, a.dtype, a.shape)
    wide = a.astype(np.float64)
    size = np.abs(wide).max((1, 2))
    eps = BOUND * np.finfo(a.dtype).eps
    assert (np.diff(w, axis=-1) >= 0).all()
    want = np.linalg.eigvalsh(wide)
    assert (np.abs(w - want).max(-1) <= eps * np.abs(want).max(-1)).all()
    w, v = w.astype(np.float64), v.astype(np.float64)
    gram = np.einsum("bij,bik->bjk", v, v)
    assert np.abs(gram - np.eye(a.shape[-1])).max() <= eps
    rest = np.abs(np.matmul(wide, v) - v * w[:, None]).max((1, 2))
    assert (rest <= eps * np.maximum(size, np.abs(w).max(-1))).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_eigenvalues_and_vectors(n, dtype):
    a, eye = symmetric(n, dtype), np.eye(n, dtype=dtype)
    grades = np.logspace(0, -6, n, dtype=dtype)
    unit = a / np.abs(a).max((1, 2), keepdims=True)
    limits = np.finfo(dtype)
    scales = limits.max / 8, limits.tiny * 2**30, dtype(1e-20), dtype(1e20)
    many = [
        a,
        # Equal values, none, nearly equal ones, and great differences.
        np.stack([eye, 0 * eye, np.ones((n, n), dtype), -eye]),
        eye + limits.eps * a,
        grades[:, None] * a * grades,
        *(unit * scale for scale in scales),
    ]
    found = eigh(lambda many: [jnp.linalg.eigh(a) for a in many], many)
    for a, w, v in zip(many, found[::2], found[1::2], strict=True):
        check_eigh(a, w, v)


def test_matrices_that_are_not_finite_alone_are_nan():
    a = symmetric(3, np.float32)
    a[5, 1, 1], a[9, 2, 0], a[9, 0, 2] = np.nan, np.inf, np.inf
    w, v = eigh(jnp.linalg.eigh, a)
    assert np.isnan(w[[5, 9]]).all() and np.isnan(v[[5, 9]]).all()
    others = np.delete(np.arange(len(a)), [5, 9])
    check_eigh(a[others], w[others], v[others])


@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_is_read(lower):
    a = symmetric(4, np.float64)
    want = np.linalg.eigvalsh(a)
    hidden = np.triu(np.ones((4, 4), bool), 1)
    a[:, hidden if lower else hidden.T] = np.nan
    f = functools.partial(
        jax.lax.linalg.eigh, lower=lower, symmetrize_input=False
    )
    v, w = eigh(f, a)
    np.testing.assert_allclose(w, want, rtol=1e-12, atol=1e-13)
    assert np.isfinite(v).all()


def test_symmetrized_and_unsorted():
    a = np.random.default_rng(0).standard_normal((9, 3, 3))
    want = np.linalg.eigvalsh((a + a.swapaxes(1, 2)) / 2)
    np.testing.assert_allclose(
        eigh(jnp.linalg.eigvalsh, a)[0], want, atol=1e-13
    )
    f = functools.partial(jax.lax.linalg.eigh, sort_eigenvalues=False)
    w = np.sort(eigh(f, a)[1])
    np.testing.assert_allclose(w, want, atol=1e-13)


def test_derivatives_and_vmap_of_eigh():
    a = symmetric(4, np.float64, 12)

    def projection(a):
        """Of which the sign of a vector is no part."""
        w, v = jnp.linalg.eigh(a)
        first = v[..., :, :1] * v[..., None, :, 0]
        return (first * jnp.arange(16.0).reshape(4, 4)).sum() + (w**3).sum()

    def every(a, tangent):
        slope = jax.grad(projection)
        forward = jax.jvp(projection, (a,), (tangent,))
        return slope(a), jax.vmap(slope)(a), forward

    wants, gots, text = both(
        every, a, symmetric(4, np.float64, 12, seed=1), names=["eigh"]
    )
    assert text.count(EIGH) == 3
    for want, got in zip(wants, gots, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
