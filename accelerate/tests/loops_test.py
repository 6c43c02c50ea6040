"""accelerate: what is written out in loops, beside JAX's own code."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_extra_options="
    + "xla_cpu_small_while_loop_byte_threshold=16384"
)

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import check_equal, program, rows
from loops_data import (
    CALLS,
    check,
    in_loop,
    matrices,
    of_each,
    squares,
)

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)

# bf16 is not written out; the fuzzer draws the others.
KEYS = ("bool", "int32", "uint64", "float16", "float32")


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
    many = [
        (np.concatenate([rows(dtype, n, i) for i in range(8)]),)
        for n in lengths
    ]
    f = in_loop(of_each(sorts))
    check_equal({dtype: (f, many)})
    text = program(f, *many)
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
    sizes = (8, 8, 8), (12, 12, 12), (4, 12, 5), (2, 9, 3), (4, 3, 5)
    pairs = [
        tuple(random.standard_normal((6, *s)) for s in ((m, k), (k, n)))
        for m, k, n in sizes
    ]
    pairs = jax.tree.map(lambda x: x.astype(dtype), pairs)
    several = random.standard_normal((6, 2, 2, 3, 4)).astype(dtype)
    sums = in_loop(of_each(lambda a, b: (a @ b, b.T @ a.T)))

    def einsum(a):
        return jnp.einsum("bijk,bljk->bil", a, a)

    def loss(pairs):
        return sum(x.sum() for x in jax.tree.leaves(sums(*pairs)))

    check(sums, *pairs)
    check(jax.grad(loss), pairs)
    check(in_loop(einsum), several)
    text = program(sums, *pairs, names=["loops"])
    assert "dot_general" not in text


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
