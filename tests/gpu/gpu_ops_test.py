"""The CUDA handlers against the CPU handlers and the references.

Part of //tests/gpu:bundle. XLA_FFI_KIT_TEST_PLATFORM=cpu runs it without a GPU,
which tests these tests and nothing else.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gpu_data import (
    CPU,
    DEVICE,
    FLOATS,
    PLATFORM,
    SHAPES,
    assert_close,
    random,
    run,
    shape_id,
)

import xla_ffi_kit
from xla_ffi_kit.ops import modular_add, relu
from xla_ffi_kit.ops.rms_norm import (
    rms_norm_bwd_op,
    rms_norm_op,
    rms_norm_weight_bwd_op,
)
from xla_ffi_kit.testing import Case, check_op


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_rms_norm_values(shape, dtype):
    x = random(shape, jnp.dtype(dtype))
    got, want = (run(xla_ffi_kit.rms_norm, d, x) for d in (DEVICE, CPU))
    assert_close(got, want, FLOATS[dtype])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_rms_norm_backward_values(shape, dtype):
    x, ct = (random(shape, jnp.dtype(dtype), seed) for seed in (1, 2))

    def backward(x, ct):
        return jax.vjp(xla_ffi_kit.rms_norm, x)[1](ct)[0]

    got, want = (run(backward, d, x, ct) for d in (DEVICE, CPU))
    assert_close(got, want, 2 * FLOATS[dtype])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "complex64", "int8"])
@pytest.mark.parametrize("m", [1, 128, 1000, 100003])
@pytest.mark.parametrize("n", [1, 3, 128])
def test_modular_add_values(n, m, dtype):
    b, c = (random((2, size), jnp.dtype(dtype)) for size in (n, m))
    got, want = (run(xla_ffi_kit.modular_add, d, b, c) for d in (DEVICE, CPU))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int16"])
@pytest.mark.parametrize("shape", [(), (37,), (3, 0), (1000, 1001)], ids=str)
def test_relu_values(shape, dtype):
    x = random(shape, jnp.dtype(dtype))
    if x.dtype.kind == "f" and x.size > 2:
        x.ravel()[:3] = [np.nan, -np.inf, -0.0]
    got, want = (run(xla_ffi_kit.relu, d, x) for d in (DEVICE, CPU))
    np.testing.assert_array_equal(got, want)


def test_the_handlers_are_what_runs():
    text = jax.jit(xla_ffi_kit.rms_norm).lower(jnp.ones((4, 8))).compile()
    assert "xla_ffi_kit.rms_norm" in text.as_text()


@pytest.mark.skipif(PLATFORM == "cpu", reason="2 GB of elements, for a GPU")
def test_more_than_2_to_the_31_elements():
    x = jnp.full((1 << 31) + 7, -3, jnp.int8).at[-1].set(5)
    y = jax.jit(xla_ffi_kit.relu, donate_argnums=0)(x)
    assert int(y[-1]) == 5 and int(y[-2]) == 0 and int(y[0]) == 0


# --- rms_norm with a weight and a residual ------------------------------------


def with_weight(x, w, r):
    return xla_ffi_kit.rms_norm(x, w)


def with_residual(x, w, r):
    return xla_ffi_kit.rms_norm(x, w, residual=r)


def operands(shape, dtype):
    """x, the weight, the residual."""
    dtype = jnp.dtype(dtype)
    return (
        random(shape, dtype, 1),
        random(shape[-1:], dtype, 2),
        random(shape, dtype, 3),
    )


@pytest.mark.parametrize("function", [with_weight, with_residual])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_rms_norm_of_a_weight_values(shape, dtype, function):
    args = operands(shape, dtype)
    got, want = (run(function, d, *args) for d in (DEVICE, CPU))
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_close(g, w, FLOATS[dtype])


@pytest.mark.parametrize("function", [with_weight, with_residual])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_id)
def test_rms_norm_of_a_weight_backward_values(shape, dtype, function):
    args = operands(shape, dtype)
    results = jax.eval_shape(function, *args)
    cts = jax.tree.map(lambda y: random(y.shape, y.dtype, 4), results)

    def backward(x, w, r, cts):
        return jax.vjp(function, x, w, r)[1](cts)

    got, want = (run(backward, d, *args, cts) for d in (DEVICE, CPU))
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, 4 * FLOATS[dtype])


# They have no kernel, and run as the reference.
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_values(dtype):
    def results(x, w, r):
        y, pull_back = jax.vjp(with_residual, x, w, r)
        return y, pull_back(y)

    args = operands((8, 4), dtype)
    got, want = (run(results, d, *args) for d in (DEVICE, CPU))
    tolerance = 1e-5 if dtype == "complex64" else 1e-13
    for g, w in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_close(g, w, tolerance)


@pytest.mark.parametrize("shape", [(70000, 16), (4099, 1024), (700, 8200)])
def test_the_gradient_of_a_weight_is_the_same_each_time_values(shape):
    x, w, ct = operands(shape, "float32")
    scale = np.ones(shape[:-1], np.float32)
    results = [
        run(rms_norm_weight_bwd_op, DEVICE, x, ct, scale, w)[1]
        for _ in range(3)
    ]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
    want = (x.astype(np.float64) * ct).sum(0)
    assert_close(results[0], want.astype(np.float32), 1e-6)


def test_a_weight_for_each_batch_values():
    x, r = (random((5, 33, 64), np.dtype("float32"), seed) for seed in (1, 2))
    w = random((5, 64), np.dtype("float32"), 3)

    def loss(x, w, r):
        y, h = with_residual(x, w, r)
        return (y * jnp.sin(h)).sum()

    gradient = jax.vmap(jax.grad(loss, (0, 1, 2)))
    got, want = (run(gradient, d, x, w, r) for d in (DEVICE, CPU))
    for g, w in zip(got, want, strict=True):
        assert_close(g, w, 2e-6)


def test_no_rows_give_a_gradient_of_zero_values():
    x = np.zeros((0, 8), np.float32)
    gradient = jax.grad(lambda x, w: with_weight(x, w, x).sum(), 1)
    result = run(gradient, DEVICE, x, np.ones(8, np.float32))
    np.testing.assert_array_equal(result, np.zeros(8, np.float32))


@pytest.mark.parametrize("donated", [0, 2])
def test_in_place_values(donated):
    args = operands((64, 40000), "float32")
    want = run(with_residual, CPU, *args)
    on_device = [jax.device_put(x, DEVICE) for x in args]
    got = jax.jit(with_residual, donate_argnums=donated)(*on_device)
    for g, w in zip(got, want, strict=True):
        assert_close(np.asarray(g), w, FLOATS["float32"])


@pytest.mark.parametrize(
    ("op", "case"),
    [
        (rms_norm_op, Case("float32[3,17]", eps=1e-6)),
        (rms_norm_op, Case("float32[3,17]", "float32[17]", eps=1e-6)),
        (
            rms_norm_op,
            Case("float32[3,17]", "float32[17]", "float32[3,17]", eps=1e-6),
        ),
        (
            rms_norm_bwd_op,
            Case("float32[3,17]", "float32[3,17]", eps=1e-6),
        ),
        (relu, Case("float32[3,17]")),
        (modular_add, Case("float32[3,4]", "float32[3,17]")),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_every_transformation(op, case):
    check_op(op, [case])
