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
from accelerate_data import both, definite, matrices, program
from loops_data import CALLS, check, in_loop, of_each, squares

jax.config.update("jax_enable_x64", True)


def factorized(a):
    b, c = a[:, :1], a @ a.T
    factors = jax.scipy.linalg.lu_factor(a)
    return (
        jnp.linalg.slogdet(a),
        jax.scipy.linalg.lu_solve(factors, b),
        jax.grad(squares(jnp.linalg.solve), (0, 1))(a, b),
        jax.grad(squares(jnp.linalg.cholesky))(c),
    )


def test_no_call_is_left():
    """The fuzzer compares the values, and those of gradients."""
    kinds = itertools.product((2, 3, 4), ("float32", "float64"))
    made = [(matrices(n, dtype),) for n, dtype in kinds]
    for f, some in (
        (factorized, made),
        (jnp.linalg.qr, made[:4]),
    ):
        text = program(in_loop(of_each(f)), *some, exact=False)
        assert not [call for call in CALLS if call in text]


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_orthogonal_factors_of_columns_of_zeros_and_large_ones(mode):
    random = np.random.default_rng(0)
    factor = functools.partial(jnp.linalg.qr, mode=mode)
    shapes = itertools.product((1, 2, 3), repeat=2)
    made = [random.standard_normal((1, m, n)) for m, n in shapes]
    zeros, large = ([(a.copy(),) for a in made] for _ in range(2))
    for (a,) in zeros:
        a[:, :, 0] = 0  # nothing to reflect
    large = [((1e30 * a).astype(np.float32),) for (a,) in large]
    check(in_loop(of_each(lambda x: factor(x)[1])), *zeros)
    check(in_loop(of_each(lambda x: factor(x)[0])), *large)


def test_special_numbers():
    for special in (np.nan, np.inf, -np.inf):
        a = definite(3, np.float32)
        a[:, 1, 1] = special
        b = a.copy()
        b[:, 1, 2] = np.nan

        def every(a, b):
            return jnp.linalg.cholesky(a), jnp.linalg.qr(b)[0]

        wants, gots, _ = both(in_loop(every), a, b, exact=False)
        np.testing.assert_array_equal(np.isnan(gots[0]), np.isnan(wants[0]))
        assert np.isnan(gots[1]).any((-2, -1)).all()
    singular = np.array([[[1, 2], [2, 4]], [[0, 0], [0, 1]], [[0, 0], [0, 0]]])
    check(in_loop(jax.lax.linalg.lu), singular.astype(np.float32))
    check(in_loop(jnp.linalg.det), singular.astype(np.float32))
    check(in_loop(jnp.linalg.cholesky), -definite(3, np.float32))
    right = np.ones((3, 2), np.float32)
    solve, single = in_loop(jnp.linalg.solve), singular.astype(np.float32)
    wants, gots, _ = both(solve, single, right, exact=False)
    np.testing.assert_array_equal(np.isfinite(gots[0]), np.isfinite(wants[0]))
