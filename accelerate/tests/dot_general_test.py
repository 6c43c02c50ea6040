"""accelerate: products of many small matrices as JAX has them, bit for bit.

The fuzzer draws layouts, values, sizes and transformations.
"""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, both, check_equal, program

import xla_ffi_accelerate
from xla_ffi_accelerate import _comparisons, _processor, _self_tests, registry

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


def test_several_dimensions_of_each_kind():
    # Batch a b, rows m o, products i j, columns p.
    lhs, rhs = random(2, 3, 2, 5, 2, 2), random(2, 4, 2, 3, 5)
    check(functools.partial(jnp.einsum, "aimbjo,jpaib->abmop"), lhs, rhs)
    # The left batch is one behind the other, the right one is not.
    lhs, rhs = random(5, 6, 4, 4), random(6, 5, 4, 4)
    check(products(((3,), (2,)), ((0, 1), (1, 0))), lhs, rhs)


def test_derivatives_are_called_but_not_larger_matrices():
    """The fuzzer compares the values of transformed products."""
    x, y = random(12, 4, 5), random(12, 5, 6)

    def loss(x, y):
        return ((x @ y) ** 2).sum()

    assert is_called(jax.grad(loss, (0, 1)), x, y)
    # Fewer and larger matrices, for which XLA is fast.
    assert not is_called(jax.vmap(loss, (-1, None)), np.stack([x] * 3, -1), y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_nan_and_sums_of_small_numbers(dtype):
    """The NaN's bits stay. To the fuzzer, all NaNs are equal.

    The kernel's own test has special values in every place.
    """
    unsigned = f"uint{8 * np.dtype(dtype).itemsize}"
    one = np.ones((16, 4, 4), dtype)
    for i, place in enumerate(np.ndindex(4, 4)):
        nan = np.array(-np.nan if i % 2 else np.nan, dtype).view(unsigned)
        one[i][place] = (nan + nan.dtype.type(i)).view(dtype)
    y = random(64, 4, 4, dtype=dtype)
    tiny = np.finfo(dtype).tiny
    small = random(64, 4, 4, dtype=dtype, seed=1) * tiny
    root = np.sqrt(tiny)
    pairs = [
        *((one, np.ones_like(one)), (np.ones_like(one), one)),
        *((small, y), (small * 4, y)),  # sums of subnormals
        *((small / tiny * root, y * root), (np.copysign(0, small), y)),
    ]
    check(lambda pairs: [a @ b for a, b in pairs], pairs, calls=6)


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
