"""accelerate: sorts, selections and what uses them, bit for bit as JAX's own.

The fuzzer draws shapes, axes, dtypes, values, payloads and transformations.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import (
    DTYPES,
    ORDERS,
    bits,
    check_equal,
    program,
    python,
    rows,
    specials,
)

import xla_ffi_accelerate
from xla_ffi_accelerate import _processor

jax.config.update("jax_enable_x64", True)

SORT, TOP_K = "@xla_ffi_accelerate.sort(", "@xla_ffi_accelerate.top_k("


def sorter(**options):
    def sort(*operands):
        operands = operands[0] if len(operands) == 1 else operands
        return jax.lax.sort(operands, **options)

    return sort


def top(k, axis=-1):
    return lambda x: jax.lax.top_k(x, k, axis=axis)


def payload(shape, dtype):
    count = int(np.prod(shape))
    return np.arange(count).astype(dtype).reshape(shape)


def test_many_keys_of_mixed_dtypes():
    """The fuzzer has two keys at most."""
    cases = {}
    for seed, num_keys in enumerate([3, 5]):
        names = np.random.default_rng(seed).permutation(DTYPES)[:num_keys]
        keys = []
        for name in names:  # few values, so that later keys decide
            special = specials(jnp.dtype(name))
            few = np.random.default_rng(seed).integers(0, 3, (4, 300))
            keys.append(special[few % len(special)])
        rest = [payload((4, 300), "uint8"), payload((4, 300), "complex128")]
        cases[f"{names}"] = sorter(num_keys=num_keys), (*keys, *rest)
    check_equal(cases)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_an_unstable_sort_is_a_stable_one(dtype):
    x = rows(dtype, 300)
    y = payload(x.shape, "int32")
    f = sorter(num_keys=1, is_stable=False)
    assert SORT in program(f, x, y, names=["sort"])
    with xla_ffi_accelerate.enabled("sort"):
        got = jax.jit(lambda *a: f(*a))(x, y)
    with xla_ffi_accelerate.disabled():
        assert bits(got) == bits(jax.jit(sorter(num_keys=1))(x, y))


def unsigned(x):
    """Without signs of zeros: jax 0.12 sorts for quantiles in any order."""
    return jnp.where(x == 0, 0, x)


def test_functions_of_numpy():
    """Of several sorts each; random_test has those of jax.random."""
    q = np.float32([0, 0.25, 1, 0.5, np.nan, 1.5, -1])
    methods = ("linear", "lower", "higher", "midpoint", "nearest")

    def every(x, k, y):
        percentiles = jnp.percentile(x, jnp.array([5.0, 50, 97]), axis=1)
        quantiles = {m: jnp.quantile(y, q, 0, method=m) for m in methods}
        return quantiles | {
            "lexsort": jnp.lexsort((x, k)),
            "median": unsigned(jnp.median(x[2:])),
            "percentile": unsigned(percentiles),
            "unique of floats": jnp.unique(x, size=300, return_inverse=True),
            "isin": jnp.isin(k, k[2, ::7], method="sort"),
            "complex": jnp.sort(x[5:7] + 1j * x[6:8]),
        }

    y = np.abs(rows("float32", 41))  # so that no zero has a sign
    x, k = rows("float32", 40, seed=3), rows("int16", 40, seed=3)
    check_equal({"": (every, (x, k, y))})


def test_programs_call_the_handler():
    x = jnp.zeros((3, 50))
    for f in (
        jnp.sort,
        jnp.argsort,
        lambda x: jnp.unique(x, size=3),
        lambda x: jax.random.permutation(jax.random.key(0), x[0]),
        jax.vmap(jax.grad(lambda x: jnp.sort(x)[3])),
        jnp.median,
        lambda x: jnp.percentile(x, 3.0),
        lambda x: jnp.argsort(x, stable=False),
        lambda x: jnp.sort(x.astype(jnp.bfloat16)),
    ):
        text = program(f, x, names=["sort"])
        assert SORT in text and "stablehlo.sort" not in text


def test_few_elements_are_left_to_jax():
    def is_called(shape, k, dtype):
        x = jax.ShapeDtypeStruct(shape, dtype)
        return TOP_K in program(lambda x: top(k)(jnp.sort(x)), x, names=names)

    names = ["top_k"]
    assert not is_called((2, 8), 2, "int32")
    assert is_called((17,), 2, "int32") and is_called((17,), 2, "float64")
    # Of f32 XLA has a selection of its own.
    assert not is_called((2, 8), 2, "float32")
    assert is_called((17,), 1, "float32") and is_called((100,), 16, "float32")
    assert not is_called((100,), 17, "float32")
    assert is_called((512,), 256, "float32")
    assert is_called((128, 64), 17, "float32")
    x = jnp.arange(18).reshape(6, 3)
    assert SORT not in program(lambda x: top(2)(jnp.sort(x)), x, names=names)
    with (
        xla_ffi_accelerate.enabled("top_k"),
        pytest.raises(ValueError, match="no larger than size"),
    ):
        jax.lax.top_k(x, 4)


@pytest.mark.parametrize(
    ("flags", "least"), [("", 33), ("--xla_cpu_max_isa=AVX2", 96)]
)
def test_the_processor_says_from_where_on(flags, least, monkeypatch):
    monkeypatch.setattr(_processor, "_description", lambda: " avx512f ")
    monkeypatch.setenv("XLA_FLAGS", flags)
    for n in (least - 1, least):
        x = jax.ShapeDtypeStruct((n,), "int32")
        assert (SORT in program(jnp.sort, x, names=["sort"])) == (n == least)


@pytest.mark.parametrize("donate", [(), (0,)])
def test_donated_operand(donate):
    x = rows("float32", 1000)
    want = bits(jax.jit(jnp.sort)(x))
    with xla_ffi_accelerate.enabled():
        f = jax.jit(jnp.sort, donate_argnums=donate)
        assert bits(f(jnp.asarray(x))) == want


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x, -1),
        lambda x: jax.lax.top_k(x, 4)[0],
        lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(4)),
        lambda x: jax.lax.conv(x[None, None], x[None, None], (1, 1), "SAME")[
            0, 0
        ],
    ],
    ids=["sort", "top_k", "cholesky", "convolution"],
)
def test_a_program_that_is_lowered_without_x64(function):
    x = np.random.default_rng(0).standard_normal((4, 4))

    def both(x):
        again = jax.lax.fori_loop(0, 2, lambda _, x: function(x), x)
        return function(x), again

    names = "sort", "top_k", "linalg", "conv_general_dilated", "loops"
    with xla_ffi_accelerate.enabled(*names):
        traced = jax.jit(both).trace(x)
        with jax.enable_x64(False):
            narrow = traced.lower().compile()
        assert bits(narrow(x)) == bits(traced.lower().compile()(x))


def test_adversarial_orders_take_no_longer():
    n = 100_000
    x = np.sort(np.random.default_rng(0).standard_normal(n, np.float32))
    arrays = {name: x[order(n)] for name, order in ORDERS.items()}
    arrays["constant"] = np.full(n, np.nan, np.float32)

    def seconds(x):
        start = time.perf_counter()
        jax.block_until_ready(f(x))
        return time.perf_counter() - start

    with xla_ffi_accelerate.enabled("sort"):
        f = jax.jit(lambda x: (jnp.sort(x), jnp.argsort(x)))
        shuffled = np.random.default_rng(1).permutation(x)
        f(shuffled)
        usual = max(seconds(shuffled) for _ in range(5))
        for name, array in arrays.items():
            # A quadratic sort would take thousands of times as long.
            assert min(seconds(array) for _ in range(3)) < 20 * usual, name
            np.testing.assert_array_equal(f(array)[0], np.sort(array))


OUT_OF_MEMORY = """
import resource
import jax, jax.numpy as jnp, numpy as np, xla_ffi_accelerate

xla_ffi_accelerate.enable()
n = 16_000_000
x = jnp.arange(n, dtype=jnp.float32)[::-1]
i = jnp.arange(n)
f = jax.jit(lambda x, i: jax.lax.sort((x, i), num_keys=1)).lower(x, i).compile()
g = jax.jit(jnp.argsort).lower(x[:9]).compile()
pages = int(open("/proc/self/statm").read().split()[0])
used = pages * resource.getpagesize()
# Enough for the results, of 64 MB each, and not for what the handler needs.
resource.setrlimit(resource.RLIMIT_AS, (used + (200 << 20), -1))
try:
    jax.block_until_ready(f(x, i))
except jax.errors.JaxRuntimeError as error:
    print(error)
assert g(x[:9])[0] == 8
"""


def test_missing_memory_is_an_error():
    said = python("-c", OUT_OF_MEMORY).stdout
    assert "failed to allocate scratch memory to sort rows of 16000000 " in said
