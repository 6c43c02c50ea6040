"""KLU beside SciPy's SuperLU, klujax and dense matrices."""

import jax
import jax.numpy as jnp
import klujax
import numpy as np
import pytest
import scipy.sparse
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import sparse

jax.config.update("jax_num_cpu_devices", 4)
LINE = scipy.sparse.diags_array(
    [[-1.5], [4], [-0.5]], offsets=[-1, 0, 1], shape=(6, 6)
)
MATRIX = scipy.sparse.kronsum(LINE, LINE, "csc")  # on a grid, not symmetric
ROW, COLUMN = MATRIX.tocoo().coords
A, B = MATRIX.data, np.cos(np.arange(36.0))


def solve(a, b, **options):
    return sparse.solve(MATRIX.indices, MATRIX.indptr, a, b, **options)


def klujaxs(a, b):
    return klujax.solve(ROW, COLUMN, a, b)


def dense(a, b):
    return jnp.linalg.solve(jnp.zeros((36, 36)).at[ROW, COLUMN].add(a), b)


def gradient(solve):
    return jax.grad(lambda a, b: jnp.sum(jnp.sin(solve(a, b))), (0, 1))


@pytest.mark.parametrize("transposed", [False, True])
def test_values_are_scipys(transposed):
    got = solve(A, B, transposed=transposed)
    matrix = MATRIX.T if transposed else MATRIX
    want = scipy.sparse.linalg.spsolve(matrix.tocsc(), B)
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("other", [klujaxs, dense])
def test_derivatives(other):
    for derivative in (
        gradient,
        lambda f: jax.jacfwd(f, (0, 1)),
        lambda f: lambda a, b: jax.jvp(gradient(f), (a, b), (b[0] * a, b))[1],
    ):
        got, want = (jax.jit(derivative(f))(A, B) for f in (solve, other))
        for x, y in zip(got, want, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_matrices_on_four_devices():
    scales = np.linspace(1, 2, 8)[:, None]
    rows = A * scales, B / scales
    sharding = NamedSharding(jax.make_mesh((4,), ("rows",)), P("rows"))
    placed = jax.device_put(rows, sharding)
    compiled = jax.jit(jax.vmap(gradient(solve))).lower(*placed).compile()
    assert "all-gather" not in compiled.as_text()
    want = jax.vmap(gradient(dense))(*rows)
    for x, y in zip(compiled(*placed), want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def test_a_singular_matrix_is_an_error():
    with pytest.raises(Exception, match="singular matrix"):
        jax.block_until_ready(solve(0 * A, B))
