"""xla_ffi_accelerate.numpy.isin: what jnp.isin returns."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, rows

import xla_ffi_accelerate.numpy as xnp
import xla_ffi_kit

jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype):
    x = rows(dtype, 60)
    for tests in (x[1, ::3], x[:, ::20]):
        want = jnp.isin(x, tests)
        assert bits(xnp.isin(x, tests)) == bits(want)


def test_as_jax_has_it():
    x, k = rows("float32", 300)[1], rows("int16", 300)[1]
    for args, options in [
        ((x, x[::9]), {"invert": True}),
        ((x, x[::9]), {"method": "sort"}),
        ((x, k), {}),  # promoted
        ((k, 3), {}),  # a weak scalar does not promote
        ((k, 3.5), {}),
        ((x[:0], x), {}),
        ((x, x[:0]), {"invert": True}),
        ((x + 1j, x[:3]), {}),  # left to JAX
        ((2, k), {}),
    ]:
        got = xnp.isin(*args, **options)
        assert bits(got) == bits(jnp.isin(*args, **options)), (args, options)


def test_long_arrays_on_threads():
    random = np.random.default_rng(0)
    x = random.integers(0, 10_000, 200_000, np.int64) << 32
    got = xnp.isin(x, x[:999])
    np.testing.assert_array_equal(got, np.isin(x, x[:999]))


def test_transformations():
    x = np.random.default_rng(0).integers(0, 999, (4, 6, 300))
    tests = x[:, :, ::10]

    def of_rows(f):
        return jax.jit(jax.vmap(jax.vmap(f, (0, None)), (1, None), 1))

    got = of_rows(xnp.isin)(x, tests[0, 0])
    assert bits(got) == bits(of_rows(jnp.isin)(x, tests[0, 0]))
    each = jax.vmap(xnp.isin)(x[0], tests[0])
    assert bits(each) == bits(jax.vmap(jnp.isin)(x[0], tests[0]))


def test_programs_call_the_handler():
    x = jnp.arange(900)
    f = jax.jit(lambda x: xnp.isin(x, x[:5]))
    assert "@xla_ffi_accelerate.isin(" in f.lower(x).as_text()
    with xla_ffi_kit.use_reference("isin"):
        assert "@xla_ffi_accelerate.isin(" not in f.lower(x).as_text()
    # As fast, or faster, without.
    assert "xla_ffi_accelerate.isin" not in f.lower(x[:50]).as_text()
