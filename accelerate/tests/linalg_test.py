"""accelerate: small matrices, factorized and solved."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=4"
)

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

TARGET = "xla_ffi_accelerate.linalg_"
SIZES = (1, 2, 3, 4, 7, 8, 13, 16)


def both(f, *arguments):
    """What XLA's own code gives, what the kit's, and the kit's program."""
    with xla_ffi_accelerate.disabled():
        want = jax.jit(lambda *a: f(*a))(*arguments)
    with xla_ffi_accelerate.enabled("linalg"):
        lowered = jax.jit(lambda *a: f(*a)).lower(*arguments)
        got = lowered.compile()(*arguments)
    leaves = (list(map(np.asarray, jax.tree.leaves(v))) for v in (want, got))
    return *leaves, lowered.as_text()


def check(f, *arguments, calls=1, tolerance=300):
    """The results agree within so many eps of the largest of a matrix."""
    wants, gots, text = both(f, *arguments)
    assert text.count(f"@{TARGET}") == calls
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
@pytest.mark.parametrize("n", SIZES)
def test_factorizations(n, dtype):
    check(jax.lax.linalg.lu, matrices(n, dtype))
    check(jnp.linalg.cholesky, definite(n, dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_triangular_solves(dtype):
    n = 5
    a, b = matrices(n, dtype), matrices(n, dtype, seed=1)[..., :3]
    for flags in range(16):
        left, lower, transposed, unit = (bool(flags >> i & 1) for i in range(4))

        def f(a, b, left=left, lower=lower, transposed=transposed, unit=unit):
            return jax.lax.linalg.triangular_solve(
                a,
                b,
                left_side=left,
                lower=lower,
                transpose_a=transposed,
                unit_diagonal=unit,
            )

        well = a / 4 + 2 * np.eye(n, dtype=dtype)
        check(f, well, b if left else b.swapaxes(1, 2))


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("n", [1, 4, 5])
def test_many_vectors(n, left):
    """They are written out, for 5 rows only if each is a column."""
    solve = functools.partial(
        jax.lax.linalg.triangular_solve, left_side=left, lower=True
    )
    well = matrices(8)[:2, :n, :n] / 4 + 2 * np.eye(n, dtype=np.float32)
    many = np.random.default_rng(0).standard_normal((2, n, 8192), np.float32)
    many[0, 0, 5] = np.nan
    for a, b in ((well, many), (well[1], many[1])):
        operands = a, b if left else b.swapaxes(-1, -2)
        check(lambda a, b: solve(a, b), *operands, calls=0)
        with xla_ffi_accelerate.enabled("linalg"):
            text = jax.jit(lambda a, b: solve(a, b)).lower(*operands).as_text()
        assert ("custom_call" in text) == (n == 5 and not left)
    few = operands[1][..., :8191] if left else operands[1][:8191]
    with xla_ffi_accelerate.enabled("linalg"):
        text = jax.jit(lambda a, b: solve(a, b)).lower(a, few).as_text()
    assert "custom_call" in text


@pytest.mark.parametrize("mode", ["reduced", "complete"])
@pytest.mark.parametrize("rows,columns", [(2, 2), (4, 4), (8, 3), (3, 4)])
def test_many_orthogonal_factors(rows, columns, mode):
    a = matrices(8, np.float32, 256)[:, :rows, :columns]
    a[3], a[5] = 0, np.eye(rows, columns)
    check(lambda a: jnp.linalg.qr(a, mode=mode), a, calls=0)
    for some, is_written_out in ((a, True), (a[1:], False)):
        with xla_ffi_accelerate.enabled("linalg"):
            f = jax.jit(lambda a: jnp.linalg.qr(a, mode=mode))
            text = f.lower(some).as_text()
        assert ("custom_call" not in text) == is_written_out


@pytest.mark.parametrize("n", SIZES)
def test_functions_of_numpy(n):
    a, b = matrices(n, np.float64), matrices(n, np.float64, seed=1)
    check(jnp.linalg.solve, a, b, calls=3)
    check(jnp.linalg.inv, a, calls=3)
    by_hand = n <= 2 and jax.__version_info__ >= (0, 10)
    check(jnp.linalg.slogdet, a, calls=not by_hand)
    check(
        lambda a, b: jax.scipy.linalg.cho_solve(
            (jnp.linalg.cholesky(a), True), b
        ),
        definite(n, np.float64),
        b,
        calls=3,
    )


def test_transformations():
    a, b = matrices(4, np.float64), matrices(4, np.float64, seed=1)

    def loss(a, b):
        return (jnp.linalg.solve(a, b) ** 2).sum()

    check(jax.grad(loss, (0, 1)), a, b, calls=5)
    check(jax.vmap(jax.grad(loss)), a, b, calls=5)
    check(jax.jacfwd(jnp.linalg.inv), a[:4], calls=3)
    check(
        jax.grad(lambda a: jnp.linalg.cholesky(a).sum()),
        definite(4, np.float64),
        calls=3,
    )
    check(
        jax.vmap(jnp.linalg.solve), a.reshape(37, 1, 4, 4), b[:, None], calls=3
    )


def test_singular_matrices_alone_are_infinite_or_nan():
    a, b = matrices(4), matrices(4, seed=1)
    a[3] = 0
    a[7, :, 2] = 0
    a[9] = np.nan
    a[11, 2] = a[11, 1]
    wants, gots, _ = both(jax.lax.linalg.lu, a)
    for want, got in zip(wants, gots, strict=True):
        usual = np.delete(np.arange(len(a)), [9, 11])
        np.testing.assert_allclose(
            got[usual], want[usual], rtol=1e-4, atol=1e-5
        )
    (want,), (got,), _ = both(jnp.linalg.solve, a, b)
    finite = np.isfinite(want).all((1, 2))
    np.testing.assert_array_equal(
        np.isfinite(got[[3, 7, 9]]).all((1, 2)), False
    )
    np.testing.assert_array_equal(
        np.delete(np.isfinite(got).all((1, 2)), 11), np.delete(finite, 11)
    )


def test_matrices_that_are_not_definite_alone_are_nan():
    a = definite(4)
    a[2] = -a[2]
    a[5, 3, 3] = -100
    a[8, 1, 1] = np.nan
    a[9] = 0
    a[10, 0, 3] = np.nan  # above the diagonal, and not read

    def f(a):
        return jax.lax.linalg.cholesky(a, symmetrize_input=False)

    check(f, a)
    _, (got,), _ = both(f, a)
    assert np.isnan(np.tril(got[[2, 5, 8, 9]])).any((1, 2)).all()
    assert np.isfinite(got[10]).all()


def test_first_of_equal_pivots():
    a = np.sign(matrices(5, count=200)) * np.float32(2)
    wants, gots, _ = both(jax.lax.linalg.lu, a)
    np.testing.assert_array_equal(gots[1][:, 0], wants[1][:, 0])
    assert (gots[1][:, 0] == 0).all()


@hypothesis.settings(
    max_examples=30,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(
    st.sampled_from(SIZES), st.integers(4, 70), st.integers(0, 2**32 - 1)
)
def test_residuals(n, count, seed):
    a = matrices(n, np.float64, count, seed)
    with xla_ffi_accelerate.enabled("linalg"):
        lu, pivots, order = jax.lax.linalg.lu(a)
        inverse = np.asarray(jnp.linalg.inv(a))
    lu, order = np.asarray(lu), np.asarray(order)
    product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
    permuted = np.take_along_axis(a, order[..., None], 1)
    np.testing.assert_allclose(product, permuted, atol=1e-13)
    assert (np.asarray(pivots) >= np.arange(n)).all()
    worst = np.linalg.cond(a)[:, None, None] * 1e-14
    assert (np.abs(a @ inverse - np.eye(n)) <= worst).all()


def test_what_is_left_to_xla():
    for a in (
        matrices(17),
        matrices(4, count=3),
        matrices(4)[0],
        matrices(4)[:, :3],
        matrices(4)[:0],
        matrices(4).astype(np.complex64),
    ):
        check(jax.lax.linalg.lu, a, calls=0)
    check(jnp.linalg.cholesky, definite(17), calls=0)


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_sharded_batches_stay_where_they_are(axis_type):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    a = jax.device_put(definite(4)[:32], NamedSharding(mesh, P("i")))
    want = np.linalg.cholesky(np.asarray(a))
    with xla_ffi_accelerate.enabled("linalg"):
        compiled = jax.jit(jnp.linalg.cholesky).lower(a).compile()
    assert f'custom_call_target="{TARGET}' in compiled.as_text()
    assert "all-gather" not in compiled.as_text()
    got = compiled(a)
    assert got.sharding.is_equivalent_to(a.sharding, 3)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_only_by_name():
    a = matrices(4)
    with xla_ffi_accelerate.enabled():
        assert TARGET not in jax.jit(jnp.linalg.inv).lower(a).as_text()
    with xla_ffi_accelerate.enabled("linalg"):
        assert xla_ffi_accelerate.status() == {"linalg": "close"}
        assert TARGET in jax.jit(jnp.linalg.inv).lower(a).as_text()
