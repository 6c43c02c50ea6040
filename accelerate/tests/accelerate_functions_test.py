"""accelerate: functions of JAX that sort give the same bits, with the kit."""

import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import ORDERS, bits, check_equal, rows

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)


def unsigned(x):
    """Without signs of zeros: jax 0.12 sorts for quantiles in any order."""
    return jnp.where(x == 0, 0, x)


def test_numpy_functions():
    x = rows("float32", 40, seed=3)
    k = rows("int16", 40, seed=3)
    cases = {
        "sort, descending": (lambda x: jnp.sort(x, descending=True), (x,)),
        "argsort": (jnp.argsort, (x,)),
        "argsort, descending": (
            lambda k: jnp.argsort(k, axis=0, descending=True),
            (k,),
        ),
        "lexsort": (lambda x, k: jnp.lexsort((x, k)), (x, k)),
        "median": (lambda x: unsigned(jnp.median(x)), (x[2:],)),
        "percentile": (
            lambda x: unsigned(
                jnp.percentile(x, jnp.array([5.0, 50, 97]), axis=1)
            ),
            (x,),
        ),
        "unique": (
            lambda k: jnp.unique(
                k,
                return_index=True,
                return_inverse=True,
                return_counts=True,
            ),
            (k,),
        ),
        "unique of floats": (jnp.unique, (x,)),
        "isin": (lambda k: jnp.isin(k, k[2, ::7], method="sort"), (k,)),
        "searchsorted": (
            lambda x: jnp.searchsorted(x[5], x[2], method="sort"),
            (x,),
        ),
        "complex": (lambda x: jnp.sort(x[5:7] + 1j * x[6:8]), (x,)),
    }
    check_equal(cases)


@pytest.mark.parametrize(
    "method", ["linear", "lower", "higher", "midpoint", "nearest"]
)
def test_quantiles(method):
    x = np.abs(rows("float32", 41))  # so that no zero has a sign
    q = np.float32([0, 0.25, 1, 0.5, np.nan, 1.5, -1])

    def quantile(x, q):
        return jnp.quantile(x, q, axis=0, method=method)

    f = jax.jit(lambda x, q: (quantile(x, q), quantile(x[5:], 0.3)))
    check_equal({method: (f, (x, q))})


def test_random_functions():
    key = jax.random.key(3)

    def choice(key):
        return jax.random.choice(key, 5000, (64,), replace=False)

    def weighted(key):
        p = jnp.arange(1.0, 41) / 820
        return jax.random.choice(key, 40, (20,), replace=False, p=p)

    def of_rows(key):
        x = jnp.arange(60.0).reshape(20, 3)
        return jax.random.permutation(key, x, independent=True)

    check_equal(
        {
            "permutation": (lambda k: jax.random.permutation(k, 3000), (key,)),
            "permutation of rows": (of_rows, (key,)),
            "choice": (choice, (key,)),
            "weighted choice": (weighted, (key,)),
        }
    )


def test_transformations():
    x = rows("float32", 30, seed=4)[2:6]
    y = np.arange(x.size, dtype=np.float32).reshape(x.shape)

    def both(x, y):
        return jax.lax.sort((x, y), num_keys=1)

    def loss(x, y):
        return (jnp.stack(both(x, y)) * jnp.arange(30.0)).sum()

    check_equal(
        {
            "jvp": (lambda x, y: jax.jvp(both, (x, y), (y, x)), (x, y)),
            "grad": (jax.grad(loss, (0, 1)), (x, y)),
            "hessian": (
                jax.hessian(lambda x: (jnp.sort(x) ** 3).sum()),
                (x[0],),
            ),
            "vmap": (jax.vmap(both, (0, None)), (x, y[0])),
            "vmap of columns": (jax.vmap(both, 1, 1), (x, y)),
            "vmap of grad": (jax.vmap(jax.grad(loss)), (x, y)),
            "grad of median": (jax.grad(jnp.median), (y[0],)),
            "scan": (
                lambda x: jax.lax.scan(
                    lambda c, row: (jnp.sort(c + row), c[0]), x[0], x
                ),
                (x,),
            ),
        }
    )


def test_programs_call_the_handler():
    x = jnp.zeros((3, 50))
    functions = [
        jnp.sort,
        jnp.argsort,
        lambda x: jnp.unique(x, size=3),
        lambda x: jax.random.permutation(jax.random.key(0), x[0]),
        jax.vmap(jax.grad(lambda x: jnp.sort(x)[3])),
        jnp.median,
        lambda x: jnp.percentile(x, 3.0),
        lambda x: jnp.argsort(x, stable=False),
        lambda x: jnp.sort(x.astype(jnp.bfloat16)),
    ]
    with xla_ffi_accelerate.enabled("sort"):
        for f in functions:
            text = jax.jit(f).lower(x).as_text()
            assert "xla_ffi_accelerate.sort" in text
            assert "stablehlo.sort" not in text


@pytest.mark.parametrize("donate", [(), (0,)])
def test_donated_operand(donate):
    x = rows("float32", 1000)
    want = bits(jax.jit(jnp.sort)(x))
    with xla_ffi_accelerate.enabled():
        f = jax.jit(jnp.sort, donate_argnums=donate)
        assert bits(f(jnp.asarray(x))) == want


def test_64_bit_arrays_without_x64():
    with jax.enable_x64(False):
        x, k = rows("float64", 60), rows("int64", 60)
        with np.errstate(all="ignore"):
            x, k = jnp.asarray(x), jnp.asarray(k)
        assert x.dtype == np.float32 and k.dtype == np.int32
        check_equal(
            {
                "sort": (jnp.sort, (x,)),
                "argsort": (jnp.argsort, (k,)),
                "lexsort": (lambda x, k: jnp.lexsort((k, x)), (x, k)),
                "top_k": (lambda k: jax.lax.top_k(k, 7), (k,)),
                "argmax": (lambda x: jnp.argmax(x, 1), (x,)),
                "cumsum": (lambda k: jnp.cumsum(k, 1), (k,)),
                "unique": (
                    lambda k: jnp.unique(k, return_inverse=True),
                    (k,),
                ),
            }
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.sort(x, -1),
        lambda x: jax.lax.top_k(x, 4)[0],
        lambda x: jnp.linalg.cholesky(x @ x.T + jnp.eye(4)),
        lambda x: jax.random.gamma(jax.random.key(0), x * x + 1),
        lambda x: jax.lax.conv(x[None, None], x[None, None], (1, 1), "SAME")[
            0, 0
        ],
    ],
    ids=["sort", "top_k", "cholesky", "gamma", "convolution"],
)
def test_a_program_that_is_lowered_without_x64(function):
    x = np.random.default_rng(0).standard_normal((4, 4))

    def loop(x):
        return jax.lax.fori_loop(0, 2, lambda _, x: function(x), x)

    names = "sort", "top_k", "linalg", "gamma", "conv_general_dilated", "loops"
    with xla_ffi_accelerate.enabled(*names):
        for f in (function, loop):
            traced = jax.jit(f).trace(x)
            with jax.enable_x64(False):
                narrow = traced.lower().compile()
            assert bits(narrow(x)) == bits(traced.lower().compile()(x))


def test_adversarial_orders_take_no_longer():
    n = 300_000
    x = np.sort(np.random.default_rng(0).standard_normal(n, np.float32))
    arrays = {name: x[order(n)] for name, order in ORDERS.items()}
    arrays["constant"] = np.full(n, np.nan, np.float32)
    f = jax.jit(lambda x: (jnp.sort(x), jnp.argsort(x)))

    def seconds(x):
        start = time.perf_counter()
        jax.block_until_ready(f(x))
        return time.perf_counter() - start

    with xla_ffi_accelerate.enabled("sort"):
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
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert (
        "failed to allocate scratch memory to sort rows of 16000000 "
        in done.stdout
    )
