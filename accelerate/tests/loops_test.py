"""accelerate: what is written out in loops, beside JAX's own code."""

import os

os.environ["XLA_FLAGS"] = (
    "--xla_backend_extra_options=xla_cpu_small_while_loop_byte_threshold=16384"
)

import functools
import itertools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, check_equal, rows
from ci_cases import examples
from hypothesis import strategies as st

import xla_ffi_accelerate
from xla_ffi_accelerate import _processor, _self_tests
from xla_ffi_accelerate.rules import products

jax.config.update("jax_enable_x64", True)


def of_release(value, is_repeated):
    """A parameter whose test waits for a release if it repeats others."""
    marks = pytest.mark.release if is_repeated else ()
    return pytest.param(value, marks=marks)


# bf16 is not written out.
FEW_KEYS = ("bool", "int32", "uint64", "float16", "float32")
KEYS = [
    of_release(dtype, dtype not in FEW_KEYS)
    for dtype in DTYPES
    if dtype != "bfloat16"
]
CALLS = ("custom_call", "stablehlo.sort", "chlo.top_k", "stablehlo.fft")


def in_loop(f):
    """`f` of each of some operands, in a loop."""
    return lambda *xs: jax.lax.scan(lambda c, x: (c, f(*x)), 0, xs)[1]


def both(f, *arguments):
    """What XLA's own code gives, what the kit's, and the kit's program."""
    with xla_ffi_accelerate.disabled():
        want = jax.jit(lambda *a: f(*a))(*arguments)
    with xla_ffi_accelerate.enabled(exact=False):
        lowered = jax.jit(lambda *a: f(*a)).lower(*arguments)
        got = lowered.compile()(*arguments)
    leaves = (list(map(np.asarray, jax.tree.leaves(v))) for v in (want, got))
    return *leaves, lowered.as_text()


def check(f, *arguments, tolerance=64):
    """The results agree within so many eps of each array's largest.

    One program of many functions takes much less time than a program of each.
    """
    wants, gots, text = both(f, *arguments)
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


def of_each(f):
    """`f` of each of some tuples of operands, as one function."""
    return lambda *many: [f(*operands) for operands in many]


def matrices(n, dtype, seed=0, count=5):
    random = np.random.default_rng((seed, n))
    a = random.standard_normal((count, n, n)) + 3 * np.eye(n)
    return np.stack([random.permutation(m) for m in a]).astype(dtype)


def definite(n, dtype):
    a = matrices(n, np.float64)
    return (a @ a.swapaxes(1, 2) + np.eye(n)).astype(dtype)


def symmetric(n, dtype):
    a = matrices(n, np.float64)
    return (a + a.swapaxes(1, 2)).astype(dtype)


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


@pytest.mark.parametrize("dtype", KEYS)
def test_sorts_bit_for_bit(dtype):
    lengths = (2, 3, 5, 8)
    operands = {
        n: np.concatenate([rows(dtype, n, i) for i in range(8)])
        for n in lengths
    }
    check_equal(
        {f"{dtype}, {n}": (in_loop(sorts), (x,)) for n, x in operands.items()}
    )
    *_, text = both(in_loop(sorts), operands[8])
    assert not [call for call in CALLS if call in text]


def test_sorts_of_rows_and_columns():
    x = rows("float32", 24, 3)[:6].reshape(6, 3, 8)
    check_equal(
        {
            "rows": (in_loop(jnp.sort), (x,)),
            "columns": (in_loop(lambda y: jnp.sort(y, 0)), (x,)),
            "most of columns": (
                in_loop(lambda y: jax.lax.top_k(y, 2, axis=0)),
                (x,),
            ),
            "gradient": (
                jax.grad(lambda y: (in_loop(jnp.sort)(y) * x[::-1]).sum()),
                (np.nan_to_num(x, posinf=1, neginf=-1),),
            ),
        }
    )


FEW_SIZES = [(4, 4, 4), (2, 5, 7), (6, 7, 1)]
SIZES = [*FEW_SIZES, (7, 7, 7), (5, 2, 3), (3, 4, 2)]


@pytest.mark.parametrize(
    "size", [of_release(size, size not in FEW_SIZES) for size in SIZES]
)
def test_products_bit_for_bit(size):
    m, k, n = size
    random = np.random.default_rng(0)
    x = random.standard_normal((40, m, k)).astype(np.float32)
    y = random.standard_normal((40, k, n)).astype(np.float32)
    x[::3] *= np.finfo(np.float32).tiny
    transposed = x.swapaxes(1, 2).copy(), y.swapaxes(1, 2).copy()
    pair = np.stack([x[:3], x[3:6]]), np.stack([y[:3], y[3:6]])
    check_equal(
        {
            "plain": (in_loop(jnp.matmul), (x, y)),
            "transposed": (in_loop(lambda a, b: a.T @ b.T), transposed),
            "of functions": (
                in_loop(lambda a, b: jnp.exp((a * 3) @ (b + 1)).T * 2),
                (x, y),
            ),
            "batched": (in_loop(jnp.matmul), pair),
            "alone": (jnp.matmul, (x[1], y[1])),
            "gradient": (
                jax.grad(lambda a: in_loop(jnp.matmul)(a, y).sum()),
                (x,),
            ),
        }
    )


def test_the_products_test_finds_another_order():
    rule = products.WRITTEN_OUT
    found = _self_tests.isolated(lambda: rule.test.run(rule))
    assert found == ({} if _processor.has_avx512() else None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_close_products(dtype):
    random = np.random.default_rng(0)
    for m, k, n in ((8, 8, 8), (12, 12, 12), (4, 12, 5), (2, 9, 3)):
        x = random.standard_normal((6, m, k)).astype(dtype)
        y = random.standard_normal((6, k, n)).astype(dtype)
        check(in_loop(jnp.matmul), x, y)
        with xla_ffi_accelerate.enabled("loops"):
            text = jax.jit(in_loop(jnp.matmul)).lower(x, y).as_text()
        assert "dot_general" not in text
    several = random.standard_normal((3, 2, 2, 3, 4)).astype(dtype)
    check(in_loop(lambda a: jnp.einsum("bijk,bljk->bil", a, a)), several)


def solves(a, b):
    return (
        jnp.linalg.solve(a, b),
        jnp.linalg.inv(a),
        jnp.linalg.slogdet(a)[1],
        jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(a), b),
        jax.lax.linalg.lu(a),
    )


def squares(f):
    """The sum of the squares of a function's real results."""
    return lambda *x: sum(
        (y**2).sum()
        for y in jax.tree.leaves(f(*x))
        if jnp.issubdtype(y.dtype, np.floating)
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


def transforms(x, z):
    n = x.shape[-1]
    return (
        [jnp.fft.fft(x), jnp.fft.ifft(x), jnp.fft.rfft(x), jnp.fft.fft(z)],
        jnp.fft.irfft(z[..., : n // 2 + 1], n=n),
        jax.grad(squares(lambda y: jnp.abs(jnp.fft.rfft(y))))(x),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms(dtype):
    random = np.random.default_rng(0)
    made = [
        random.standard_normal((3, 2, n)).astype(dtype) for n in range(1, 9)
    ]
    pairs = [(x, x + 1j * x[::-1]) for x in made]
    check(in_loop(of_each(transforms)), *pairs)


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


def test_what_is_not_written_out():
    """Nothing, complex matrices, larger ones, and what is in no loop."""
    f = in_loop(jnp.linalg.inv)
    with xla_ffi_accelerate.enabled(exact=False):
        for a in (matrices(5, np.float32), matrices(3, np.complex64)):
            assert "getrf" in jax.jit(f).lower(a).as_text()
        alone = jax.jit(jnp.linalg.inv).lower(matrices(3, np.float32)[0])
        assert "getrf" in alone.as_text()
        text = jax.jit(in_loop(jnp.sort)).lower(np.ones((3, 9))).as_text()
        assert "xla_ffi_accelerate.sort" in text
        for shape in ((3, 0, 0), (3, 2, 0, 0)):
            assert f(np.ones(shape, np.float32)).shape == shape
        assert in_loop(jnp.sort)(np.ones((3, 0))).shape == (3, 0)


def step(x):
    a = jnp.outer(x, x) * 0.1 + jnp.eye(x.size, dtype=x.dtype) * 2
    y = jnp.linalg.solve(a, jnp.sort(x)) @ (a @ a)
    return jnp.tanh(y + jnp.linalg.cholesky(a)[-1])


def loop(x):
    return jax.lax.fori_loop(0, 7, lambda _, y: step(y), x)


def test_transformed_loops():
    x = np.array([0.3, -0.2, 0.9], np.float64)
    check(loop, x)
    check(jax.vmap(loop), np.stack([x, x[::-1]]), tolerance=999)
    check(jax.jit(jax.jacfwd(loop)), x, tolerance=999)

    def energy(x):
        return jax.lax.scan(lambda y, _: (step(y), None), x, None, 4)[0][0]

    check(jax.grad(energy), x, tolerance=999)
    check(jax.grad(lambda y: jax.grad(energy)(y)[1]), x, tolerance=9999)


# Name -> function of matrices of n rows, whether its bits are XLA's, and the
# largest n. Orders of sort depend on the operand alone.
FUZZED = {
    "sort": (lambda a: jnp.sort(a, -1), True, 5),
    "argsort": (lambda a: jnp.argsort(a, 0), True, 5),
    "top_k": (lambda a: jax.lax.top_k(a, a.shape[0]), True, 5),
    "median": (lambda a: jnp.median(jnp.abs(a), -1), True, 5),
    "product": (lambda a: a @ a.T, True, 5),
    "solve": (
        lambda a: jnp.linalg.solve(a + 9 * jnp.eye(len(a), dtype=a.dtype), a),
        False,
        4,
    ),
    "cholesky": (
        lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(len(a), dtype=a.dtype)),
        False,
        4,
    ),
    "qr": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), False, 3),
    "eigvalsh": (lambda a: jnp.linalg.eigvalsh(a + a.T), False, 3),
    "fft": (lambda a: jnp.fft.fft(a), False, 5),
}


@functools.cache
def fuzzed(name, n):
    f = FUZZED[name][0]
    x = jax.ShapeDtypeStruct((4, n, n), np.float32)
    settings = (
        xla_ffi_accelerate.enabled(exact=False),
        xla_ffi_accelerate.disabled(),
    )
    programs = []
    for setting in settings:
        with setting:
            programs.append(jax.jit(in_loop(lambda a: f(a))).lower(x).compile())
    return programs


@pytest.mark.parametrize("name", FUZZED)
@hypothesis.settings(max_examples=examples(20), deadline=None)
@hypothesis.given(data=st.data())
def test_drawn_at_random(name, data):
    _, is_exact, most = FUZZED[name]
    n = data.draw(st.integers(2, most))
    elements = st.integers(-4, 4).map(float) | st.floats(-100, 100, width=32)
    values = data.draw(
        st.lists(elements, min_size=4 * n * n, max_size=4 * n * n)
    )
    x = np.array(values, np.float32).reshape(4, n, n)
    got, want = (f(x) for f in fuzzed(name, n))
    # Without AVX-512 XLA adds in another order: a product is close there.
    is_close = name == "product" and not _processor.has_avx512()
    if is_exact and not is_close:
        assert bits(got) == bits(want)
        return
    for g, w in zip(
        map(np.asarray, jax.tree.leaves(got)),
        map(np.asarray, jax.tree.leaves(want)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.isfinite(g), np.isfinite(w))
        size = np.abs(w[np.isfinite(w)]).max(initial=np.abs(x).max())
        scale = 1 + np.abs(x).max() ** 2 if name in ("solve", "cholesky") else 1
        error = np.nan_to_num(np.abs(g - w)).max(initial=0)
        assert error <= 2**8 * size * scale * np.finfo(np.float32).eps
