"""accelerate: what is written out in loops, beside JAX's own code."""

import os

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_backend_extra_options="
    + "xla_cpu_small_while_loop_byte_threshold=16384"
)

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import matrices, program
from loops_data import CALLS, check, in_loop, of_each

import xla_ffi_accelerate

jax.config.update("jax_enable_x64", True)


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


FLOATS = ("float32", "float64")


@pytest.mark.parametrize(
    "f, shapes, dtypes",
    [
        # bf16 is not written out.
        (sorts, [(2,), (3,), (8,)], ("bool", "uint64", "float16", *FLOATS)),
        (products, [(8, 8), (9, 9), (12, 12)], FLOATS),
    ],
)
def test_no_call_is_left(f, shapes, dtypes):
    """The fuzzer compares the values, and those of gradients."""
    operands = [(np.ones((8, *s), d),) for s in shapes for d in dtypes]
    text = program(in_loop(of_each(f)), *operands, exact=False)
    assert not [c for c in (*CALLS, "dot_general") if c in text]


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


def test_a_loop_of_unknown_length_may_have_many_steps():
    def f(n, x):
        return jax.lax.fori_loop(0, n, lambda _, x: jnp.sort(-x), x)

    assert "stablehlo.sort" not in program(f, 3, np.ones(8))


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
