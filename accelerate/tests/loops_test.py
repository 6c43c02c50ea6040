"""accelerate: what is written out in loops, beside JAX's own code.

The fuzzer compares the values, and those of gradients.
"""

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

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

CALLS = ("custom_call", "stablehlo.sort", "chlo.top_k")
FLOATS = ("float32", "float64")


def in_loop(f):
    """`f` of each of some operands, in a loop."""
    return lambda *xs: jax.lax.scan(lambda c, x: (c, f(*x)), 0, xs)[1]


def of_each(f):
    """`f` of each of some tuples of operands, as one function.

    To compile one program of them takes much less time than one of each.
    """
    return lambda *many: [f(*operands) for operands in many]


def squares(f):
    """The sum of the squares of a function's real results."""
    return lambda *x: sum(
        (y**2).sum()
        for y in jax.tree.leaves(f(*x))
        if jnp.issubdtype(y.dtype, jnp.floating)
    )


def check(f, *arguments, tolerance=64):
    """The results agree within so many eps of each array's largest."""
    wants, gots, text = both(f, *arguments, exact=False)
    # XLA leaves a sort of one element out.
    is_one = all(x.shape[-1] == 1 for x in jax.tree.leaves(arguments))
    assert is_one or not [call for call in CALLS if call in text]
    for want, got in zip(wants, gots, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if not np.issubdtype(want.dtype, np.inexact):
            np.testing.assert_array_equal(got, want)
            continue
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
        finite = np.isfinite(want)
        np.testing.assert_array_equal(np.isfinite(got), finite)
        size = np.abs(want[finite]).max(initial=1)
        error = np.abs(got - want)[finite].max(initial=0)
        assert error <= tolerance * size * np.finfo(want.dtype).eps


def sorts(x):
    order = jax.lax.iota(np.int32, x.shape[-1])
    together = (x, order.astype(np.complex64), x)
    return (
        jax.lax.sort(x),
        jnp.argsort(x, descending=True),
        jax.lax.sort(together, num_keys=1),
        jax.lax.top_k(x, x.shape[-1] // 2 + 1),
        jax.lax.top_k(x, 1),
    )


def products(x):
    return x @ x, x[:4].T @ x[:4, :5], jnp.einsum("ij,lj->il", x, x)


def factorized(a):
    b, c = a[:, :1], a @ a.T
    factors = jax.scipy.linalg.lu_factor(a)
    return (
        jnp.linalg.slogdet(a),
        jax.scipy.linalg.lu_solve(factors, b),
        jax.grad(squares(jnp.linalg.solve), (0, 1))(a, b),
        jax.grad(squares(jnp.linalg.cholesky))(c),
        jnp.linalg.qr(a[:3, :3]),
    )


@pytest.mark.parametrize(
    "f, shapes, dtypes",
    [
        # bf16 is not written out.
        (sorts, [(2,), (3,), (8,)], ("bool", "uint64", "float16", *FLOATS)),
        (products, [(8, 8), (9, 9), (12, 12)], FLOATS),
        (factorized, [(2, 2), (3, 3), (4, 4)], FLOATS),
    ],
)
def test_no_call_is_left(f, shapes, dtypes):
    operands = [(np.ones((8, *s), d),) for s in shapes for d in dtypes]
    text = program(in_loop(of_each(f)), *operands, exact=False)
    assert not [call for call in CALLS if call in text]
    assert f is not products or "dot_general" not in text


def test_what_is_not_written_out():
    """Nothing, complex matrices, larger ones, and what is in no loop."""
    f = in_loop(jnp.linalg.inv)
    with xla_ffi_accelerate.enabled(exact=False):
        for a in (matrices(5, np.float32), matrices(3, np.complex64)):
            assert "getrf" in jax.jit(f).lower(a).as_text()
        alone = jax.jit(jnp.linalg.inv).lower(matrices(3, np.float32)[0])
        assert "getrf" in alone.as_text()
        text = jax.jit(in_loop(jnp.sort)).lower(np.ones((3, 16))).as_text()
        assert "xla_ffi_accelerate.sort" in text
        for shape in ((3, 0, 0), (3, 2, 0, 0)):
            assert f(np.ones(shape, np.float32)).shape == shape
        assert in_loop(jnp.sort)(np.ones((3, 0))).shape == (3, 0)
        none = in_loop(functools.partial(jax.lax.top_k, k=0))(np.ones((8, 8)))
        assert [y.shape for y in none] == [(8, 0)] * 2


@pytest.mark.parametrize("f", [jnp.sort, jax.lax.top_k])
def test_few_steps_are_not_worth_a_program_on_another_thread(f):
    """XLA moves it there, whatever its loops: all their steps count."""
    f = functools.partial(f, k=2) if f is jax.lax.top_k else f

    def is_written_out(*shape):
        loop = f
        for _ in shape[:-1]:
            loop = in_loop(loop)
        text = program(loop, np.ones(shape, np.float32), exact=False)
        return not [call for call in CALLS if call in text]

    assert is_written_out(8, 8) and is_written_out(2, 4, 8)
    assert not is_written_out(7, 8) and not is_written_out(2, 3, 8)
    assert is_written_out(1, 3)  # few operations


def test_a_branch_in_a_loop_is_in_the_loop():
    def f(x):
        return jax.lax.cond(x[0] > 0, jnp.sort, jnp.negative, x)

    x = np.arange(128.0).reshape(8, 16)[:, :8] * -1 + 60
    check(in_loop(f), x)


def test_a_loop_of_unknown_length_may_have_many_steps():
    def f(n, x):
        return jax.lax.fori_loop(0, n, lambda _, x: jnp.sort(-x), x)

    def g(x):
        def step(state):
            return state[0] + 0.01, jnp.sort(-state[1])

        return jax.lax.while_loop(lambda s: s[0] < 1.0, step, (0.0, x))[1]

    assert "stablehlo.sort" not in program(f, 3, np.ones(8))
    assert "stablehlo.sort" not in program(g, np.ones(8))


def step(x):
    a = jnp.outer(x, x) * 0.1 + jnp.eye(x.size, dtype=x.dtype) * 2
    y = jnp.linalg.solve(a, jnp.sort(x)) @ (a @ a)
    return jnp.tanh(y + jnp.linalg.cholesky(a)[-1])


def loop(x):
    return jax.lax.fori_loop(0, 7, lambda _, y: step(y), x)


def test_transformed_loops():
    x = np.array([0.3, -0.2, 0.9], np.float64)
    check(loop, x)
    check(jax.jit(jax.jacfwd(loop)), x, tolerance=999)

    def energy(x):
        return jax.lax.scan(lambda y, _: (step(y), None), x, None, 4)[0][0]

    check(jax.grad(energy), x, tolerance=999)


@pytest.mark.parametrize("mode", ["reduced", "complete"])
def test_orthogonal_factors_of_zeros_and_large_numbers(mode):
    random = np.random.default_rng(0)
    factor = functools.partial(jnp.linalg.qr, mode=mode)
    shapes = itertools.product((1, 2, 3), repeat=2)
    made = [random.standard_normal((1, m, n)) for m, n in shapes]
    zeros = [(a.copy(),) for a in made]
    for (a,) in zeros:
        a[:, :, 0] = 0  # nothing to reflect
    begun = [(a.copy(),) for a in (*made, *made)]
    for i, (a,) in enumerate(begun):
        a[:, 0, 0] = (0.0, -0.0)[i % 2]  # whose sign decides the factors'
    large = [((1e30 * a).astype(np.float32),) for a in made]
    check(in_loop(of_each(factor)), *begun)
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
    check(in_loop(jnp.linalg.cholesky), singular.astype(np.float32))
    right = np.ones((3, 2), np.float32)
    solve, single = in_loop(jnp.linalg.solve), singular.astype(np.float32)
    wants, gots, _ = both(solve, single, right, exact=False)
    np.testing.assert_array_equal(np.isfinite(gots[0]), np.isfinite(wants[0]))
