"""accelerate: products of many small matrices as JAX has them, bit for bit."""

import functools
import itertools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import (
    bits,
    both,
    check_equal,
    own_cache,
    program,
    specials,
)

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
    return CALL in program(f, *arguments, names=["dot_general"])


def check(f, *arguments, calls=1):
    want, got, text = both(f, *arguments)
    assert text.count(CALL) == calls
    assert bits(got) == bits(want)


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
    f = lambda pairs: [jnp.matmul(*pair) for pair in pairs]  # noqa: E731
    check_equal({dtype: (f, (arrays,))})


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_layout(dtype):
    """Of the operands, and of results that are transposed."""
    lhs = random(9, 6, 5, dtype=dtype)
    rhs = random(9, 5, 4, dtype=dtype)
    programs, arguments = [], []
    for i, j in itertools.product(itertools.permutations(range(3)), repeat=2):
        contracting = (i.index(2),), (j.index(1),)
        programs.append(products(contracting, ((i.index(0),), (j.index(0),))))
        arguments.append((lhs.transpose(i), rhs.transpose(j)))
    pairs = [
        (random(9, m, k, dtype=dtype), random(9, k, n, dtype=dtype))
        for m, k, n in [*SIZES, (3, 4, 4), (5, 4, 4), (6, 5, 4)]
    ]

    def every(arguments):
        return [f(*a) for f, a in zip(programs, arguments, strict=True)]

    check(every, arguments, calls=len(programs))
    turned = lambda pairs: [(x @ y).swapaxes(1, 2) for x, y in pairs]  # noqa: E731
    check_equal({dtype: (turned, (pairs,))})


def test_several_dimensions_of_each_kind():
    # Batch a b, rows m o, products i j, columns p.
    lhs, rhs = random(2, 3, 2, 5, 2, 2), random(2, 4, 2, 3, 5)
    check(functools.partial(jnp.einsum, "aimbjo,jpaib->abmop"), lhs, rhs)


@pytest.mark.parametrize("dtype", FLOATS)
def test_transformations(dtype):
    x = random(12, 4, 5, dtype=dtype)
    y = random(12, 5, 6, dtype=dtype)
    multiply = jnp.matmul

    def loss(x, y):
        return (multiply(x, y) ** 2).sum()

    def every(x, y):
        several = jnp.moveaxis(x.reshape(3, 4, 4, 5), 0, -1)
        step = lambda c, y: (c @ y, c)  # noqa: E731
        return (
            jax.grad(loss, (0, 1))(x, y),
            jax.jvp(multiply, (x, y), (x[::-1], y[::-1])),
            jax.vmap(multiply, (1, 1), 2)(x.swapaxes(0, 1), y.swapaxes(0, 1)),
            jax.vmap(jax.vmap(multiply), (-1, 0), -1)(
                several, y.reshape(3, 4, 5, 6)
            ),
            jax.vmap(jax.grad(loss))(jnp.stack([x] * 2), jnp.stack([y] * 2)),
            jax.lax.scan(step, x[..., :4], jnp.stack([y[:, :4, :4]] * 3)),
        )

    check_equal({dtype: (every, (x, y))})
    assert is_called(jax.grad(loss, (0, 1)), x, y)
    # Fewer and larger matrices, for which XLA is fast.
    assert not is_called(jax.vmap(loss, (-1, None)), np.stack([x] * 3, -1), y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_in_every_place(dtype):
    """Special ones, one NaN, whose bits stay, and small numbers."""
    special = specials(np.dtype(dtype))
    x = np.tile(random(16, 4, 4, dtype=dtype), (len(special), 1, 1))
    for i, place in enumerate(np.ndindex(len(special), 4, 4)):
        x[i][place[1:]] = special[place[0]]
    unsigned = f"uint{8 * np.dtype(dtype).itemsize}"
    one = np.ones((16, 4, 4), dtype)
    for i, place in enumerate(np.ndindex(4, 4)):
        nan = np.array(-np.nan if i % 2 else np.nan, dtype).view(unsigned)
        one[i][place] = (nan + nan.dtype.type(i)).view(dtype)
    y = random(64, 4, 4, dtype=dtype)
    tiny = np.finfo(dtype).tiny
    small = random(64, 4, 4, dtype=dtype, seed=1) * tiny
    root = np.sqrt(tiny)
    zeros = np.copysign(np.zeros_like(small), small)
    pairs = [
        *((one, np.ones_like(one)), (np.ones_like(one), one)),
        *((small, y), (small * 4, y)),  # sums of subnormals
        *((small / tiny * root, y * root), (zeros, y)),
    ]

    def every(x, z, pairs):
        products = x @ z, z @ x, x @ x
        # Of two NaNs that meet, either may stay.
        met = [jnp.where(jnp.isnan(z), jnp.nan, z) for z in products]
        return met, [a @ b for a, b in pairs]

    z = random(*x.shape, dtype=dtype, seed=1)
    check(every, x, z, pairs, calls=9)


def test_operands_that_are_computed_and_constants():
    x = random(50, 4, 4)
    constant = jnp.asarray(random(50, 4, 4, seed=1))

    def every(x):
        y = jnp.sin(x) @ jnp.exp(x).swapaxes(1, 2)
        eye = jnp.broadcast_to(jnp.eye(4, dtype=x.dtype), x.shape)
        constants = x @ constant, x @ jnp.ones_like(x), x @ eye
        return jnp.tanh(y) + 1, (y * y).sum(), constants

    check(every, x, calls=4)


def test_full_precision_of_any_name():
    x = random(8, 4, 4)
    for precision in ("default", "high", "highest", jax.lax.Precision.HIGH):
        assert is_called(
            functools.partial(jnp.matmul, precision=precision), x, x
        )
    with jax.default_matmul_precision("float32"):
        assert is_called(jnp.matmul, x, x)
    preset = jax.lax.DotAlgorithmPreset.BF16_BF16_F32
    assert not is_called(functools.partial(jnp.matmul, precision=preset), x, x)


def test_others_are_left_to_jax():
    x = random(9, 4, 4)
    for lhs, rhs in (
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
    ):
        assert not is_called(jnp.matmul, random(*lhs), random(*rhs)), (lhs, rhs)
    for dtype in ("float16", "bfloat16", "complex64", "int32", "bool"):
        other = jnp.asarray(x).astype(dtype)
        assert not is_called(jnp.matmul, other, other), dtype
    mixed = products(((2,), (1,)), ((0,), (0,)))
    assert not is_called(mixed, x, x.astype("float64"))
    wide = functools.partial(jnp.matmul, preferred_element_type="float64")
    assert not is_called(wide, x, x)


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
