"""modular_add: values, every dtype, transformations, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_ffi_kit import modular_add, use_reference

jax.config.update("jax_enable_x64", True)

DTYPES = (
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)


def make(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.integers(0, 100, shape), dtype)


def expected(b, c):
    index = np.arange(c.shape[-1]) % max(1, b.shape[-1])
    return np.asarray(b)[..., index] + np.asarray(c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "m"), [(3, 7), (7, 3), (33, 33)])
def test_every_dtype(n, m, dtype):
    b, c = make((2, n), dtype), make((2, m), dtype, 1)
    got = modular_add(b, c)
    assert got.dtype == c.dtype
    np.testing.assert_array_equal(got, expected(b, c))


@pytest.mark.parametrize("batch", [(), (2,), (2, 3), (0,)])
@pytest.mark.parametrize(
    ("n", "m"), [(1, 1), (128, 1024), (3, 7), (5, 0), (0, 0)]
)
def test_every_shape(n, m, batch):
    b, c = make((*batch, n), "int16"), make((*batch, m), "int16", 1)
    want = expected(b, c) if m else np.zeros((*batch, 0))
    np.testing.assert_array_equal(modular_add(b, c), want)
    np.testing.assert_array_equal(jax.jit(modular_add)(b, c), want)


def test_integers_wrap_around():
    b, c = jnp.array([100], jnp.int8), jnp.array([100, -100], jnp.int8)
    np.testing.assert_array_equal(
        modular_add(b, c), np.array([-56, 0], np.int8)
    )


def test_gradients():
    b, c, w = (make((s,), "float64", s) for s in (3, 8, 8))

    def loss(b, c):
        return jnp.sum(modular_add(b, c) ** 2 * w)

    got = jax.grad(loss, (0, 1))(b, c)
    with use_reference():
        want = jax.grad(loss, (0, 1))(b, c)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14)
    out, tangent = jax.jvp(modular_add, (b, c), (c[:3], b[:1] * c))
    np.testing.assert_allclose(out, expected(b, c))
    np.testing.assert_allclose(tangent, expected(c[:3], b[:1] * c))


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None), (1, -2)])
def test_vmap_is_one_batched_call(in_axes):
    def at(axis, size):
        if axis is None:
            return (size,)
        return (4, size) if axis % 2 == 0 else (size, 4)

    b, c = make(at(in_axes[0], 3), "int32"), make(at(in_axes[1], 8), "int32")
    f = jax.vmap(modular_add, in_axes)
    rows = [
        np.moveaxis(np.asarray(x), a, 0) if a is not None else [x] * 4
        for x, a in zip((b, c), in_axes, strict=True)
    ]
    want = np.stack([expected(x, y) for x, y in zip(*rows, strict=True)])
    np.testing.assert_array_equal(f(b, c), want)
    text = str(jax.make_jaxpr(f)(b, c))
    assert text.count("xla_ffi_kit.modular_add[") == 1 and "scan" not in text


OP = "xla_ffi_kit.modular_add"


@pytest.mark.parametrize(
    ("b", "c", "error", "message"),
    [
        (
            np.int32(1),
            np.ones(3, np.int32),
            ValueError,
            f"{OP}: operand b: expected rank >= 1, got rank 0",
        ),
        (
            np.ones(3, np.int32),
            np.ones(3, np.int64),
            TypeError,
            f"{OP}: operand c: expected dtype int32 as operand b has, got "
            "int64",
        ),
        (
            np.ones((2, 3), np.int32),
            np.ones((4, 3), np.int32),
            ValueError,
            f"{OP}: operand c: expected batch dimensions [2] as operand b has, "
            "got [4]",
        ),
        (
            np.ones(0, np.int32),
            np.ones(3, np.int32),
            ValueError,
            f"{OP}: operand b: expected axis -1 of size >= 1, got 0 "
            "(shape [0])",
        ),
        (
            np.ones(3, bool),
            np.ones(3, bool),
            TypeError,
            f"{OP}: operand b: expected dtype {', '.join(DTYPES)}, got bool",
        ),
        (
            None,
            np.ones(3, bool),
            TypeError,
            f"{OP}: operand b: expected an array, got None (NoneType)",
        ),
    ],
)
def test_bad_input(b, c, error, message):
    with pytest.raises(error) as caught:
        modular_add(b, c)
    assert str(caught.value) == message
