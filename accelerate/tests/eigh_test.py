"""accelerate("eigh"): eigenvectors of small matrices, up to their signs."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

CALL = "@xla_ffi_accelerate.linalg_eigh("
DTYPES = (np.float32, np.float64)
BOUND = 16  # eps


def kit(f, *arguments):
    """The results under `accelerate("eigh")`, and the program."""
    with xla_ffi_accelerate.enabled("eigh"):
        lowered = jax.jit(lambda *a: f(*a)).lower(*arguments)
        results = lowered.compile()(*arguments)
    return jax.tree.map(np.asarray, results), lowered.as_text()


def own(f, *arguments):
    with xla_ffi_accelerate.disabled():
        return jax.tree.map(np.asarray, jax.jit(lambda *a: f(*a))(*arguments))


def symmetric(n, dtype, count=301, seed=0):
    a = np.random.default_rng((seed, n)).standard_normal((count, n, n))
    return (a + a.swapaxes(1, 2)).astype(dtype)


def check(a):
    """Values as LAPACK has them, and vectors that are theirs."""
    (w, v), text = kit(jnp.linalg.eigh, a)
    assert CALL in text
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_values_and_vectors(n, dtype):
    a = symmetric(n, dtype)
    check(a)
    eye = np.eye(n, dtype=dtype)
    # Equal values, none, nearly equal ones, and great differences.
    check(np.stack([eye, 0 * eye, np.ones((n, n), dtype), -eye]))
    check(eye + np.finfo(dtype).eps * a)
    grades = np.logspace(0, -6, n, dtype=dtype)
    check(grades[:, None] * a * grades)


@pytest.mark.parametrize("dtype", DTYPES)
def test_any_scale(dtype):
    limits = np.finfo(dtype)
    a = symmetric(4, np.float64)
    a /= np.abs(a).max((1, 2), keepdims=True)
    for scale in (limits.max / 8, limits.tiny * 2**30, 1e-20, 1e20):
        check((a * float(scale)).astype(dtype))


def test_matrices_that_are_not_finite_alone_are_nan():
    a = symmetric(3, np.float32)
    a[5, 1, 1], a[9, 2, 0], a[9, 0, 2] = np.nan, np.inf, np.inf
    (w, v), _ = kit(jnp.linalg.eigh, a)
    assert np.isnan(w[[5, 9]]).all() and np.isnan(v[[5, 9]]).all()
    others = np.delete(np.arange(len(a)), [5, 9])
    want = np.linalg.eigvalsh(a[others].astype(np.float64))
    np.testing.assert_allclose(w[others], want, rtol=1e-5, atol=1e-5)
    assert np.isfinite(v[others]).all()


@pytest.mark.parametrize("lower", [True, False])
def test_one_triangle_is_read(lower):
    a = symmetric(4, np.float64)
    want = np.linalg.eigvalsh(a)
    hidden = np.triu(np.ones((4, 4), bool), 1)
    a[:, hidden if lower else hidden.T] = np.nan

    def f(a):
        v, w = jax.lax.linalg.eigh(a, lower=lower, symmetrize_input=False)
        return w, v

    (w, v), text = kit(f, a)
    assert CALL in text
    np.testing.assert_allclose(w, want, rtol=1e-12, atol=1e-13)
    assert np.isfinite(v).all()


def test_symmetrized_and_unsorted():
    a = np.random.default_rng(0).standard_normal((9, 3, 3))
    (w, _), _ = kit(jnp.linalg.eigh, a)
    want = np.linalg.eigvalsh((a + a.swapaxes(1, 2)) / 2)
    np.testing.assert_allclose(w, want, atol=1e-13)

    def f(a):
        return jax.lax.linalg.eigh(a, sort_eigenvalues=False)[1]

    w, text = kit(f, a)
    assert CALL in text
    np.testing.assert_allclose(np.sort(w), want, atol=1e-13)


def test_derivatives_and_vmap():
    a = symmetric(4, np.float64, 12)

    def projection(a):
        """Of which the sign of a vector is no part."""
        w, v = jnp.linalg.eigh(a)
        first = v[..., :, :1] * v[..., None, :, 0]
        return (first * jnp.arange(16.0).reshape(4, 4)).sum() + (w**3).sum()

    for f in (jax.grad(projection), jax.vmap(jax.grad(projection))):
        got, text = kit(f, a)
        assert CALL in text
        np.testing.assert_allclose(got, own(f, a), rtol=1e-8, atol=1e-8)
    tangent = symmetric(4, np.float64, 12, seed=1)
    got, _ = kit(lambda a, t: jax.jvp(projection, (a,), (t,)), a, tangent)
    want = own(lambda a, t: jax.jvp(projection, (a,), (t,)), a, tangent)
    np.testing.assert_allclose(got, want, rtol=1e-8)


def test_what_is_left_to_xla():
    for a in (
        symmetric(5, np.float32),
        symmetric(4, np.float32)[:3],
        symmetric(4, np.float32)[0],
        symmetric(4, np.float32)[:0],
        symmetric(4, np.complex64),
    ):
        _, text = kit(jnp.linalg.eigh, a)
        assert CALL not in text

    def some(a):
        return jax.lax.linalg.eigh(a, subset_by_index=(0, 4))

    _, text = kit(some, symmetric(4, np.float32))
    assert CALL in text  # those are all


@pytest.mark.parametrize("axis_type", [AxisType.Auto, AxisType.Explicit])
def test_sharded_batches_stay_where_they_are(axis_type):
    mesh = jax.make_mesh((4,), ("i",), axis_types=(axis_type,))
    host = symmetric(4, np.float32, 32)
    a = jax.device_put(host, NamedSharding(mesh, P("i")))
    with xla_ffi_accelerate.enabled("eigh"):
        compiled = jax.jit(lambda a: jnp.linalg.eigh(a)).lower(a).compile()
    text = compiled.as_text()
    assert "xla_ffi_accelerate.linalg_eigh" in text and "all-gather" not in text
    np.testing.assert_allclose(
        compiled(a)[0], np.linalg.eigvalsh(host), atol=1e-5
    )


def test_only_by_name():
    a = symmetric(4, np.float32)
    with xla_ffi_accelerate.enabled("linalg"):
        assert CALL not in jax.jit(jnp.linalg.eigh).lower(a).as_text()
    with xla_ffi_accelerate.enabled("eigh"):
        assert xla_ffi_accelerate.status() == {"eigh": "close"}
