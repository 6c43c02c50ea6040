"""isin and nonzero of the kit: what jnp.isin and jnp.nonzero return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import DTYPES, bits, rows

import xla_ffi_kit

jax.config.update("jax_enable_x64", True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_isin_of_every_dtype(dtype):
    x = rows(dtype, 60)
    for tests in (x[1, ::3], x[:, ::20]):
        want = jnp.isin(x, tests)
        assert bits(xla_ffi_kit.numpy.isin(x, tests)) == bits(want)


def test_isin_as_jax_has_it():
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
        got = xla_ffi_kit.numpy.isin(*args, **options)
        assert bits(got) == bits(jnp.isin(*args, **options)), (args, options)


def test_isin_of_long_arrays_on_threads():
    random = np.random.default_rng(0)
    x = random.integers(0, 10_000, 200_000, np.int64) << 32
    got = xla_ffi_kit.numpy.isin(x, x[:999])
    np.testing.assert_array_equal(got, np.isin(x, x[:999]))


@pytest.mark.parametrize("shape", [(300,), (3, 5, 8), (0, 4)])
@pytest.mark.parametrize("size", [0, 40, 500])
def test_nonzero_of_a_size(shape, size):
    x = np.random.default_rng(0).integers(0, 3, shape)
    for options in (
        {},
        {"fill_value": -7},
        {"fill_value": 2.5},
        {"fill_value": True},
        {"fill_value": tuple(range(len(shape)))},
    ):
        got = xla_ffi_kit.numpy.nonzero(x, size=size, **options)
        want = jnp.nonzero(x, size=size, **options)
        assert bits(got) == bits(want), options


@pytest.mark.parametrize("dtype", ["bool", "float32", "bfloat16", "int8"])
def test_nonzero_counts(dtype):
    x = rows(dtype, 100)
    assert bits(xla_ffi_kit.numpy.nonzero(x)) == bits(jnp.nonzero(x))


def test_nonzero_without_x64():
    with jax.enable_x64(False):
        got = xla_ffi_kit.numpy.nonzero(jnp.arange(5) % 2, size=3)
        assert bits(got) == bits(jnp.nonzero(jnp.arange(5) % 2, size=3))
        assert got[0].dtype == np.int32


def test_errors():
    with pytest.raises(ValueError, match="0d arrays"):
        xla_ffi_kit.numpy.nonzero(3)
    with pytest.raises(ValueError, match="expected a number or a tuple of 1"):
        xla_ffi_kit.numpy.nonzero([1, 2], size=2, fill_value=(1, 2))
    with pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(xla_ffi_kit.numpy.nonzero)(jnp.ones(3))


def test_transformations():
    x = np.random.default_rng(0).integers(0, 999, (4, 6, 300))
    tests = x[:, :, ::10]

    def of_rows(f):
        return jax.jit(jax.vmap(jax.vmap(f, (0, None)), (1, None), 1))

    for f, g, args in [
        (xla_ffi_kit.numpy.isin, jnp.isin, (x, tests[0, 0])),
        (
            lambda x, n: xla_ffi_kit.numpy.nonzero(x - n, size=9)[0],
            lambda x, n: jnp.nonzero(x - n, size=9)[0],
            (x, 3),
        ),
    ]:
        assert bits(of_rows(f)(*args)) == bits(of_rows(g)(*args))
    each = jax.vmap(xla_ffi_kit.numpy.isin)(x[0], tests[0])
    assert bits(each) == bits(jax.vmap(jnp.isin)(x[0], tests[0]))

    def loss(x):
        indices = xla_ffi_kit.numpy.nonzero(x > 0, size=3)[0]
        return (x[indices] ** 2).sum() + xla_ffi_kit.numpy.isin(x, x[:1]).sum()

    np.testing.assert_array_equal(
        jax.grad(loss)(jnp.array([-1.0, 2, 0, 3, 1])), [0, 4, 0, 6, 2]
    )


def test_programs_call_the_handlers():
    x = jnp.arange(900)
    for name, f in [
        ("isin", lambda x: xla_ffi_kit.numpy.isin(x, x[:5])),
        ("nonzero", lambda x: xla_ffi_kit.numpy.nonzero(x, size=2)),
    ]:
        call = f"@xla_ffi_kit.{name}("
        assert call in jax.jit(f).lower(x).as_text()
        with xla_ffi_kit.use_reference(f"xla_ffi_kit.{name}"):
            assert call not in jax.jit(f).lower(x).as_text()
    # As fast, or faster, without.
    is_in = jax.jit(lambda x: xla_ffi_kit.numpy.isin(x, x[:5]))
    assert "xla_ffi_kit.isin" not in is_in.lower(x[:50]).as_text()
