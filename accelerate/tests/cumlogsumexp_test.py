"""accelerate("cumlogsumexp"): within the stated bound of the exact result."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerate_data import bits

import xla_ffi_accelerate
import xla_ffi_kit

jax.config.update("jax_enable_x64", True)

CALL = "@xla_ffi_accelerate.cumlogsumexp("


def both(f, *args):
    """With the kit and without."""
    xla_ffi_accelerate.disable()
    want = f(*args)
    with xla_ffi_accelerate.enabled("cumlogsumexp"):
        assert CALL in f.lower(*args).as_text()
        return np.asarray(f(*args)), np.asarray(want)


def exact(x, axis=0, reverse=False):
    x = np.flip(x, axis) if reverse else x
    y = np.logaddexp.accumulate(x.astype(np.longdouble), axis)
    return np.flip(y, axis) if reverse else y


def along(axis, reverse=False):
    return jax.jit(
        functools.partial(jax.lax.cumlogsumexp, axis=axis, reverse=reverse)
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [0, 1, 30, 1e3, 1e30])
def test_bound(dtype, scale):
    random = np.random.default_rng(0)
    x = (scale * random.standard_normal((3, 700, 2))).astype(dtype)
    for axis in range(3):
        for reverse in (False, True):
            f = along(axis, reverse)
            if x.shape[axis] < 4:
                continue
            got, want = both(f, x)
            right = exact(x, axis, reverse)
            bound = 8 * np.finfo(dtype).eps * (np.abs(x).max() + 7)
            assert np.abs(got - right).max() <= bound
            # XLA adds its errors up.
            assert np.abs(want - right).max() <= 100 * bound


def test_special_values_as_jax_has_them():
    inf, nan = np.inf, np.nan
    x = np.float32(
        [
            [-inf, -inf, 1, -inf, 2],
            [-inf, inf, 1, -inf, inf],
            [inf, inf, nan, 1, 2],
            [0, nan, 1, inf, -inf],
            [-inf, -inf, -inf, -inf, -inf],
            [1e-45, -1e-45, 0, -0.0, 3e38],
        ]
    )
    for reverse in (False, True):
        got, want = both(along(1, reverse), x)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_derivatives_stay_jax_own():
    x = np.random.default_rng(1).standard_normal(40)
    f = jax.jit(jax.grad(lambda x: (jax.lax.cumlogsumexp(x) ** 2).sum()))
    xla_ffi_accelerate.disable()
    want = bits(f(x))
    with xla_ffi_accelerate.enabled("cumlogsumexp"):
        assert bits(f(x)) == want


def test_vmap_and_long_lines():
    x = np.random.default_rng(2).standard_normal((5, 300, 4))
    got, want = both(jax.jit(jax.vmap(jax.lax.cumlogsumexp, 1, 2)), x)
    np.testing.assert_allclose(got, want, rtol=1e-12)
    line = x.ravel().repeat(50).astype(np.float32)
    got, _ = both(along(0), line)
    np.testing.assert_allclose(got, exact(line).astype(float), rtol=2e-6)


def test_what_is_left_to_jax():
    with xla_ffi_accelerate.enabled("cumlogsumexp"):
        for x in (jnp.ones(3), jnp.ones(90, jnp.float16), jnp.ones(0)):
            assert CALL not in along(0).lower(x).as_text()
        assert CALL in along(0).lower(jnp.ones(4)).as_text()


def test_asked_for_by_name():
    x = jnp.ones(90)
    with xla_ffi_accelerate.enabled():
        assert "cumlogsumexp" not in xla_ffi_accelerate.status()
        assert CALL not in along(0).lower(x).as_text()
    with xla_ffi_accelerate.enabled(exact=False):
        assert xla_ffi_accelerate.status()["cumlogsumexp"] == "close"
        assert CALL in along(0).lower(x).as_text()


def test_the_handler_refuses():
    xla_ffi_kit.register(*xla_ffi_accelerate.LIBRARIES)
    x = np.ones(5, np.float16)
    call = jax.ffi.ffi_call(
        "xla_ffi_accelerate.cumlogsumexp",
        jax.ShapeDtypeStruct(x.shape, x.dtype),
    )
    with pytest.raises(
        jax.errors.JaxRuntimeError,
        match="one of the dtypes f32, f64, got dtype f16",
    ):
        call(x, reverse=np.bool_(False))
