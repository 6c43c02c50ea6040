"""accelerate: products of many small matrices as JAX has them, bit for bit."""

import functools
import itertools
import threading

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, check_equal, own_cache, specials
from ci_cases import examples
from hypothesis import strategies as st

import xla_ffi_accelerate
from xla_ffi_accelerate import (
    _comparisons,
    _processor,
    _self_tests,
    registry,
)

jax.config.update("jax_enable_x64", True)

CALL = "@xla_ffi_accelerate.dot_general("
FLOATS = ("float32", "float64")
# Rows, products of a sum and columns: of every kind of size that a library may
# treat in its own way.
SIZES = [(4, 4, 4), (2, 5, 7), (7, 7, 7), (5, 6, 3), (4, 4, 3), (6, 7, 2)]


@pytest.fixture(autouse=True)
def only_the_handler():
    """The rule that writes a few products out has loops_test."""
    rules = [r for r in registry.RULES["dot_general"] if r.target]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(registry.RULES, "dot_general", rules)
        yield


def random(*shape, dtype="float32", seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape, dtype)


def is_called(f, *arguments):
    """Whether the program has the kit's handler."""
    with xla_ffi_accelerate.enabled("dot_general"):
        return CALL in jax.jit(lambda *a: f(*a)).lower(*arguments).as_text()


def check(f, *arguments, called=True):
    assert is_called(f, *arguments) == called
    check_equal({"f": (jax.jit(f), arguments)})


def products(*dimension_numbers):
    def run(lhs, rhs):
        return jax.lax.dot_general(lhs, rhs, dimension_numbers)

    return run


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("count", [8, 1000])
def test_sizes(dtype, count):
    arrays = [
        (random(count, m, k, dtype=dtype), random(count, k, n, dtype=dtype))
        for m, k, n in SIZES
    ]
    for (m, _, n), pair in zip(SIZES, arrays, strict=True):
        # Eigen's f64 kernel has another order in an odd last column, and the
        # result may be computed transposed.
        is_odd = (m > 3 and n % 2) or (n > 3 and m % 2)
        is_odd = is_odd and dtype == "float64"
        # Without AVX-512 Eigen has yet other orders, in odd columns of f32 too.
        if _processor.has_avx512() or (m, n) == (4, 4):
            assert is_called(jnp.matmul, *pair) == (not is_odd)
    f = jax.jit(lambda pairs: [jnp.matmul(*pair) for pair in pairs])
    check_equal({dtype: (f, (arrays,))})


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_layout_of_the_operands(dtype):
    lhs = random(9, 6, 5, dtype=dtype)
    rhs = random(9, 5, 4, dtype=dtype)
    cases = {}
    for i, j in itertools.product(itertools.permutations(range(3)), repeat=2):
        batch, contracting = (i.index(0),), (i.index(2),)
        other_batch, other = (j.index(0),), (j.index(1),)
        f = products((contracting, other), (batch, other_batch))
        cases[f"{i}, {j}"] = (f, (lhs.transpose(i), rhs.transpose(j)))
    programs = [f for f, _ in cases.values()]
    arguments = [a for _, a in cases.values()]

    def every(arguments):
        return [f(*a) for f, a in zip(programs, arguments, strict=True)]

    with xla_ffi_accelerate.enabled():
        text = jax.jit(every).lower(arguments).as_text()
    assert text.count(CALL) == len(cases)
    check_equal({dtype: (jax.jit(every), (arguments,))})


@pytest.mark.parametrize("dtype", FLOATS)
def test_results_that_are_transposed(dtype):
    arrays = [
        (random(9, m, k, dtype=dtype), random(9, k, n, dtype=dtype))
        for m, k, n in [*SIZES, (3, 4, 4), (5, 4, 4), (6, 5, 4)]
    ]
    f = jax.jit(lambda pairs: [(x @ y).swapaxes(1, 2) for x, y in pairs])
    check_equal({dtype: (f, (arrays,))})


def test_several_dimensions_of_each_kind():
    # Batch a b, rows m o, products i j, columns p.
    lhs, rhs = random(2, 3, 2, 5, 2, 2), random(2, 4, 2, 3, 5)
    check(functools.partial(jnp.einsum, "aimbjo,jpaib->abmop"), lhs, rhs)


@hypothesis.settings(
    max_examples=examples(40),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(st.data())
def test_any_dimension_numbers(data):
    sizes = st.integers(1, 4)
    batch = data.draw(st.lists(sizes, min_size=1, max_size=2)) + [4]
    contracting = data.draw(st.sampled_from([[4], [5], [7], [2, 3], [3, 2]]))
    rows = data.draw(st.sampled_from([[], [2], [4], [7], [2, 3]]))
    columns = data.draw(st.sampled_from([[], [3], [4], [6], [2, 2]]))
    dtype = data.draw(st.sampled_from(FLOATS))
    operands, numbers = [], []
    for free in (rows, columns):
        x = random(*batch, *contracting, *free, dtype=dtype)
        places = data.draw(st.permutations(range(x.ndim)))  # of x's axes
        operands.append(x.transpose(np.argsort(places)))
        numbers.append(places)
    nb, nk = len(batch), len(contracting)
    f = products(
        tuple(tuple(p[nb : nb + nk]) for p in numbers),
        tuple(tuple(p[:nb]) for p in numbers),
    )
    check_equal({str(numbers): (jax.jit(f), operands)})


@pytest.mark.parametrize("dtype", FLOATS)
def test_transformations(dtype):
    x = random(12, 4, 5, dtype=dtype)
    y = random(12, 5, 6, dtype=dtype)

    def loss(x, y):
        return (jnp.matmul(x, y) ** 2).sum()

    both = (x, y)
    check(jax.grad(loss, (0, 1)), *both)
    check(lambda x, y: jax.jvp(jnp.matmul, (x, y), (x[::-1], y[::-1])), *both)
    check(jax.vmap(jnp.matmul, (1, 1), 2), x.swapaxes(0, 1), y.swapaxes(0, 1))
    check(
        jax.vmap(jax.vmap(jnp.matmul), (-1, 0), -1),
        np.moveaxis(x.reshape(3, 4, 4, 5), 0, -1),
        y.reshape(3, 4, 5, 6),
    )
    check(jax.vmap(jax.grad(loss)), np.stack([x] * 2), np.stack([y] * 2))
    # Fewer and larger matrices, for which XLA is fast.
    check(jax.vmap(loss, (-1, None)), np.stack([x] * 3, -1), y, called=False)
    check(
        lambda x, y: jax.lax.scan(lambda c, y: (c @ y, c), x[..., :4], y),
        x,
        np.stack([y[:, :4, :4]] * 3),
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_specials_in_every_place(dtype):
    values = specials(np.dtype(dtype))
    x = np.tile(random(16, 4, 4, dtype=dtype), (len(values), 1, 1))
    for i, place in enumerate(np.ndindex(len(values), 4, 4)):
        x[i][place[1:]] = values[place[0]]
    y = random(*x.shape, dtype=dtype, seed=1)

    def f(x, y):
        products = jnp.matmul(x, y), jnp.matmul(y, x), jnp.matmul(x, x)
        # Of two NaNs that meet, either may stay.
        return [jnp.where(jnp.isnan(z), jnp.nan, z) for z in products]

    check(f, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_nan_keeps_its_bits(dtype):
    unsigned = f"uint{8 * np.dtype(dtype).itemsize}"
    x = np.ones((16, 4, 4), dtype)
    for i, place in enumerate(np.ndindex(4, 4)):
        nan = np.array(-np.nan if i % 2 else np.nan, dtype).view(unsigned)
        x[i][place] = (nan + nan.dtype.type(i)).view(dtype)
    check(jnp.matmul, x, np.ones_like(x))
    check(jnp.matmul, np.ones_like(x), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_small_numbers(dtype):
    tiny = np.finfo(dtype).tiny
    x = random(64, 4, 4, dtype=dtype) * tiny
    y = random(64, 4, 4, dtype=dtype)
    check(jnp.matmul, x, y)  # sums of subnormals
    check(jnp.matmul, x * 4, y)
    root = np.sqrt(tiny)
    check(jnp.matmul, x / tiny * root, y * root)
    zeros = np.where(x < 0, np.array(-0.0, dtype), np.array(0, dtype))
    check(jnp.matmul, zeros, y)


def test_full_precision_of_any_name():
    x = random(8, 4, 4)
    for precision in ("default", "high", "highest", jax.lax.Precision.HIGH):
        check(functools.partial(jnp.matmul, precision=precision), x, x)
    with jax.default_matmul_precision("float32"):
        check(jnp.matmul, x, x)


def test_operands_that_are_computed():
    x = random(50, 4, 4)

    def f(x):
        y = jnp.sin(x) @ jnp.exp(x).swapaxes(1, 2)
        return jnp.tanh(y) + 1, (y * y).sum()

    check(f, x)


def test_constants_in_the_program():
    x = random(50, 4, 4)
    constant = jnp.asarray(random(50, 4, 4, seed=1))
    check(lambda x: x @ constant, x)
    check(lambda x: x @ jnp.ones((50, 4, 4), x.dtype), x)
    eye = jnp.eye(4, dtype=x.dtype)
    check(lambda x: x @ jnp.broadcast_to(eye, x.shape), x)


@pytest.mark.parametrize(
    "lhs, rhs",
    [
        ((7, 4, 4), (7, 4, 4)),  # so few cost XLA less than a call
        ((9, 3, 3), (9, 3, 3)),
        ((9, 4, 3), (9, 3, 4)),
        ((9, 4, 8), (9, 8, 4)),
        ((9, 8, 4), (9, 4, 4)),
        ((9, 1, 4), (9, 4, 4)),
        ((9, 4, 4), (9, 4, 1)),
        ((0, 4, 4), (0, 4, 4)),
        ((9, 4, 0), (9, 0, 4)),
        ((9, 0, 4), (9, 4, 4)),
        ((4, 4), (4, 4)),
        ((9, 4, 4), (4, 4)),
    ],
)
def test_other_sizes_are_left_to_jax(lhs, rhs):
    check(jnp.matmul, random(*lhs), random(*rhs), called=False)


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "complex64", "int32", "bool"]
)
def test_other_dtypes_are_left_to_jax(dtype):
    x = jnp.asarray(random(9, 4, 4)).astype(dtype)
    check(jnp.matmul, x, x, called=False)


def test_other_results_are_left_to_jax():
    x, y = random(9, 4, 4), random(9, 4, 4, dtype="float64")
    f = functools.partial(products(((2,), (1,)), ((0,), (0,))))
    check(f, x, y, called=False)
    wide = functools.partial(jnp.matmul, preferred_element_type="float64")
    check(wide, x, x, called=False)
    preset = jax.lax.DotAlgorithmPreset.BF16_BF16_F32
    assert not is_called(functools.partial(jnp.matmul, precision=preset), x, x)


def test_exported_programs_are_left_to_jax():
    x = random(9, 4, 4)
    with xla_ffi_accelerate.enabled():
        exported = jax.export.export(jax.jit(jnp.matmul))(x, x)
    assert CALL not in exported.mlir_module()


_cache = pytest.fixture(own_cache)


@pytest.mark.usefixtures("_cache")
def test_an_order_that_the_handler_lacks_is_left_to_jax(monkeypatch):
    x = random(9, 5, 4)
    y = x.swapaxes(1, 2)
    monkeypatch.setattr(_self_tests, "_found", {})
    monkeypatch.setattr(_comparisons, "ORDERS", ())
    assert not is_called(jnp.matmul, x, y)
    monkeypatch.undo()
    monkeypatch.setattr(_self_tests, "_found", {})
    assert is_called(jnp.matmul, x, y)


def test_compiled_on_several_threads_and_in_a_trace():
    x = random(11, 6, 5)
    y = x.swapaxes(1, 2)
    want = bits(jax.jit(jnp.matmul)(x, y))
    got = []

    def compute():
        got.append(bits(jax.jit(lambda x, y: x @ y)(x, y)))

    with xla_ffi_accelerate.enabled():
        _self_tests._found.clear()
        threads = [threading.Thread(target=compute) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        _self_tests._found.clear()

        def outer(z):
            compiled = jax.jit(jnp.matmul).lower(x, y).compile()
            assert "xla_ffi_accelerate.dot_general" in compiled.as_text()
            return z

        jax.jit(outer)(1)
        with jax.transfer_guard("disallow_explicit"):
            _self_tests._found.clear()
            assert is_called(jnp.matmul, x, y)
    assert got == [want] * 4


def test_donated():
    x = random(500, 4, 4)
    f = jax.jit(jnp.matmul, donate_argnums=0)
    want = bits(f(jnp.asarray(x), x))
    with xla_ffi_accelerate.enabled():
        assert bits(f(jnp.asarray(x), x)) == want


def test_threads_share_the_matrices():
    x = random(30_011, 5, 7)
    check(jnp.matmul, x, np.ascontiguousarray(x.swapaxes(1, 2)))
    check(lambda x: x @ x.swapaxes(1, 2), x)
