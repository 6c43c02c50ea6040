"""accelerate: what is written out in loops, beside JAX's own code."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_extra_options="
    + "xla_cpu_small_while_loop_byte_threshold=16384"
)

import functools

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, check_equal, rows
from ci_cases import examples
from hypothesis import strategies as st
from loops_data import (
    CALLS,
    both,
    check,
    in_loop,
    matrices,
    of_each,
    of_release,
    squares,
)

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

# bf16 is not written out.
FEW_KEYS = ("bool", "int32", "uint64", "float16", "float32")
KEYS = [
    of_release(dtype, dtype not in FEW_KEYS)
    for dtype in DTYPES
    if dtype != "bfloat16"
]


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products(dtype):
    random = np.random.default_rng(0)
    for m, k, n in ((8, 8, 8), (12, 12, 12), (4, 12, 5), (2, 9, 3), (4, 3, 5)):
        x = random.standard_normal((6, m, k)).astype(dtype)
        y = random.standard_normal((6, k, n)).astype(dtype)
        check(in_loop(jnp.matmul), x, y)
        check(in_loop(lambda a, b: b.T @ a.T), x, y)
        check(jax.grad(lambda a, b: in_loop(jnp.matmul)(a, b).sum()), x, y)
        with xla_ffi_accelerate.enabled("loops"):
            text = jax.jit(in_loop(jnp.matmul)).lower(x, y).as_text()
        assert "dot_general" not in text
    several = random.standard_normal((3, 2, 2, 3, 4)).astype(dtype)
    check(in_loop(lambda a: jnp.einsum("bijk,bljk->bil", a, a)), several)


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
    "product": (lambda a: a @ a.T, False, 5),
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
    if is_exact:
        assert bits(got) == bits(want)
        return
    for g, w in zip(
        map(np.asarray, jax.tree.leaves(got)),
        map(np.asarray, jax.tree.leaves(want)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.isfinite(g), np.isfinite(w))
        size = np.abs(w[np.isfinite(w)]).max(initial=np.abs(x).max())
        is_square = name in ("solve", "cholesky", "product")
        scale = 1 + np.abs(x).max() ** 2 if is_square else 1
        error = np.nan_to_num(np.abs(g - w)).max(initial=0)
        assert error <= 2**8 * size * scale * np.finfo(np.float32).eps
