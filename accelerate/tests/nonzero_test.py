"""xnp.nonzero: what jnp.nonzero returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits, rows

import xla_ffi_accelerate.numpy as xnp
import xla_ffi_kit

jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("shape", [(300,), (3, 5, 8), (0, 4)])
@pytest.mark.parametrize("size", [0, 40, 500])
def test_of_a_size(shape, size):
    x = np.random.default_rng(0).integers(0, 3, shape)
    for options in (
        {},
        {"fill_value": -7},
        {"fill_value": 2.5},
        {"fill_value": True},
        {"fill_value": tuple(range(len(shape)))},
    ):
        got = xnp.nonzero(x, size=size, **options)
        want = jnp.nonzero(x, size=size, **options)
        assert bits(got) == bits(want), options


@pytest.mark.parametrize("dtype", ["bool", "float32", "bfloat16", "int8"])
def test_counts(dtype):
    x = rows(dtype, 100)
    assert bits(xnp.nonzero(x)) == bits(jnp.nonzero(x))


def test_without_x64():
    with jax.enable_x64(False):
        got = xnp.nonzero(jnp.arange(5) % 2, size=3)
        assert bits(got) == bits(jnp.nonzero(jnp.arange(5) % 2, size=3))
        assert got[0].dtype == np.int32


def test_errors():
    with pytest.raises(ValueError, match="0d arrays"):
        xnp.nonzero(3)
    with pytest.raises(ValueError, match="expected a number or a tuple of 1"):
        xnp.nonzero([1, 2], size=2, fill_value=(1, 2))
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(xnp.nonzero)(jnp.ones(3))


def test_transformations():
    x = np.random.default_rng(0).integers(0, 999, (4, 6, 300))

    def of_rows(nonzero):
        def f(x, n):
            return nonzero(x - n, size=9)[0]

        return jax.jit(jax.vmap(jax.vmap(f, (0, None)), (1, None), 1))

    assert bits(of_rows(xnp.nonzero)(x, 3)) == bits(of_rows(jnp.nonzero)(x, 3))

    def loss(x):
        return (x[xnp.nonzero(x > 0, size=3)[0]] ** 2).sum()

    np.testing.assert_array_equal(
        jax.grad(loss)(jnp.array([-1.0, 2, 0, 3, 1])), [0, 4, 0, 6, 2]
    )


def test_programs_call_the_handler():
    x = jnp.arange(900)
    f = jax.jit(lambda x: xnp.nonzero(x, size=2))
    assert "@xla_ffi_accelerate.nonzero(" in f.lower(x).as_text()
    with xla_ffi_kit.use_reference("nonzero"):
        assert "@xla_ffi_accelerate.nonzero(" not in f.lower(x).as_text()
