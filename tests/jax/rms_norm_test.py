"""rms_norm: values, every dtype, transformations, bad input."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit.ops.rms_norm import rms_norm_fwd_op, rms_norm_op

jax.config.update("jax_enable_x64", True)

# Tolerance relative to the largest value; 16-bit results are rounded once.
DTYPES = {
    "float16": 1e-3,
    "bfloat16": 8e-3,
    "float32": 1e-6,
    "float64": 1e-14,
    "complex64": 1e-6,
    "complex128": 1e-14,
}
SHAPES = [(1,), (7,), (3, 5), (2, 3, 33), (4, 1), (1, 257), (0, 8), (2, 0, 3)]


def make(shape, dtype, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    if dtype.startswith("complex"):
        x = x + 1j * rng.normal(size=shape)
    return jnp.asarray(x, dtype)


def expected(x, eps=1e-6):
    wide = np.asarray(x).astype(
        np.complex128 if jnp.iscomplexobj(x) else np.float64
    )
    power = np.mean(np.abs(wide) ** 2, axis=-1, keepdims=True)
    return wide / np.sqrt(power + eps)


def assert_close(got, want, tolerance):
    got = np.asarray(got)
    assert got.shape == np.shape(want)
    if got.size:
        wide = got.astype(np.result_type(np.asarray(want).dtype, np.float64))
        error = np.max(np.abs(wide - np.asarray(want)))
        assert error <= tolerance * max(1, np.max(np.abs(want)))


def calls(function, *args):
    """Names of the primitives in the jaxpr, with how often each occurs."""
    text = str(jax.make_jaxpr(function)(*args))
    return {n: text.count(f" {n}[") for n in ("xla_ffi_kit.rms_norm",)}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_forward(shape, dtype):
    x = make(shape, dtype)
    for function in (xla_ffi_kit.rms_norm, jax.jit(xla_ffi_kit.rms_norm)):
        y = function(x)
        assert y.dtype == x.dtype
        assert_close(y, expected(x), DTYPES[dtype])


def test_the_compiled_program_calls_the_handler():
    x = make((4, 8), "float32")
    text = jax.jit(xla_ffi_kit.rms_norm).lower(x).compile().as_text()
    assert 'custom_call_target="xla_ffi_kit.rms_norm"' in text


@pytest.mark.parametrize("eps", [0, 1e-12, 0.5, np.float32(0.5), 3])
def test_eps(eps):
    x = make((3, 6), "float64")
    y = xla_ffi_kit.rms_norm(x, eps=eps)
    assert_close(y, expected(x, float(eps)), 1e-14)


@pytest.mark.parametrize("eps", [np.float32(1e-2), np.float64(1e-3)])
def test_eps_of_a_raw_call_has_either_type(eps):
    x = jnp.arange(12.0).reshape(3, 4)
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = jax.ffi.ffi_call("xla_ffi_kit.rms_norm", out)(x, eps=eps)
    np.testing.assert_array_equal(y, xla_ffi_kit.rms_norm(x, eps=float(eps)))


def test_half_precision_does_not_overflow():
    x = jnp.full((2, 16), 300.0, jnp.float16)
    np.testing.assert_array_equal(xla_ffi_kit.rms_norm(x), jnp.ones_like(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_is_that_of_the_reference(dtype):
    x, weight = make((3, 17), dtype), make((3, 17), dtype, 1)

    def loss(x):
        y = xla_ffi_kit.rms_norm(x, eps=1e-3) * weight
        return jnp.sum(jnp.real(y * y)).astype(jnp.float64)

    got = jax.grad(loss)(x)
    with xla_ffi_kit.use_reference():
        wide = "complex128" if jnp.iscomplexobj(x) else "float64"
        weight = weight.astype(wide)
        want = jax.grad(loss)(x.astype(wide))
    assert got.dtype == x.dtype
    assert_close(got, np.asarray(want), 10 * DTYPES[dtype])


@pytest.mark.parametrize("dtype", ["float64"])
def test_jvp_and_vjp_agree_with_the_reference(dtype):
    x, v = make((3, 5), dtype), make((3, 5), dtype, 1)
    kernel, reference = (
        rms_norm_op,
        functools.partial(rms_norm_op, implementation="reference"),
    )
    for f, g in [
        (kernel, reference),
        (rms_norm_fwd_op, rms_norm_fwd_op.reference),
    ]:
        f = functools.partial(f, eps=1e-3)
        g = functools.partial(g, eps=1e-3)
        for a, b in zip(
            jax.tree.leaves(jax.jvp(f, (x,), (v,))),
            jax.tree.leaves(jax.jvp(g, (x,), (v,))),
            strict=True,
        ):
            assert_close(a, b, 1e-13)
        out, pull_f = jax.vjp(f, x)
        _, pull_g = jax.vjp(g, x)
        assert_close(pull_f(out)[0], pull_g(out)[0], 1e-13)


def test_the_gradient_calls_the_backward_handler_and_no_reference():
    x = make((4, 8), "float32")
    grad = jax.grad(lambda x: xla_ffi_kit.rms_norm(x).sum())
    text = jax.jit(grad).lower(x).compile().as_text()
    assert 'custom_call_target="xla_ffi_kit.rms_norm_bwd"' in text
    assert "rsqrt" not in text


@pytest.mark.parametrize("in_axis", [0, 1, 2, -1])
@pytest.mark.parametrize("out_axis", [0, 1, -1])
def test_vmap_is_one_batched_call(in_axis, out_axis):
    x = make((3, 4, 5), "float64")
    f = jax.vmap(xla_ffi_kit.rms_norm, in_axis, out_axis)
    moved = np.moveaxis(np.asarray(x), in_axis, 0)
    want = np.moveaxis(expected(moved), 0, out_axis)
    assert_close(f(x), want, 1e-14)
    assert calls(f, x) == {"xla_ffi_kit.rms_norm": 1}
    assert "scan" not in str(jax.make_jaxpr(f)(x))


def test_vmap_of_grad_and_grad_of_vmap():
    x = make((6, 5), "float64")

    def loss(row):
        return jnp.sum(xla_ffi_kit.rms_norm(row) ** 3)

    want = jax.grad(lambda x: jnp.sum(jnp.stack([loss(r) for r in x])))(x)
    assert_close(jax.vmap(jax.grad(loss))(x), want, 1e-14)
    assert_close(jax.grad(lambda x: jax.vmap(loss)(x).sum())(x), want, 1e-14)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_weight_and_residual(dtype):
    x, r = make((3, 9), dtype), make((3, 9), dtype, 1)
    w = make((9,), dtype, 2)
    y, total = xla_ffi_kit.rms_norm(x, w, residual=r)
    np.testing.assert_array_equal(total, x + r)
    want = expected(x + r) * np.asarray(w, np.float64)
    assert_close(y, want, 2 * DTYPES[dtype])
    assert_close(
        xla_ffi_kit.rms_norm(x, weight=w),
        expected(x) * np.asarray(w, np.float64),
        2 * DTYPES[dtype],
    )


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("which", [(), (0,), (1,), (0, 1)])
def test_complex_numbers_run_no_handler(which, in_place):
    x = make((3, 5), "complex128")
    given = [make((5,), "complex128", 1), make((3, 5), "complex128", 2)]
    w, r = (g if i in which else None for i, g in enumerate(given))

    def norm(x, in_place=in_place):
        y = xla_ffi_kit.rms_norm(x, w, residual=r, in_place=in_place)
        return y[0] if r is not None else y

    def plain(x):
        h = x if r is None else x + r
        power = jnp.mean(jnp.real(h * jnp.conj(h)), -1, keepdims=True)
        y = h / jnp.sqrt(power + 1e-6)
        return y if w is None else y * w

    assert_close(norm(x), plain(x), 1e-14)
    got, want = (
        jax.value_and_grad(lambda x, f=f: jnp.sum(jnp.abs(f(x) - 1)))(x)
        for f in (norm, plain)
    )
    assert_close(got[1], want[1], 1e-13)
    slope = jax.jit(lambda x: jax.vjp(norm, x)[1](x))
    assert "custom_call" not in slope.lower(x).as_text()


OP = "xla_ffi_kit.rms_norm"
ONES = np.ones((2, 3), np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (
            (np.float32(1),),
            {},
            ValueError,
            f"{OP}: operand x: expected rank >= 1, got rank 0",
        ),
        (
            (np.ones((2, 0), np.float32),),
            {},
            ValueError,
            f"{OP}: operand x: expected axis -1 of size >= 1, got 0 "
            "(shape [2, 0])",
        ),
        (
            (np.ones(3, np.int32),),
            {},
            TypeError,
            f"{OP}: operand x: expected dtype float16, bfloat16, float32, "
            "float64, complex64, complex128, got int32",
        ),
        (
            ("text",),
            {},
            TypeError,
            f"{OP}: operand x: expected an array, got 'text' (str)",
        ),
        (
            (ONES, np.ones(2, np.float32)),
            {},
            ValueError,
            f"{OP}: operand weight: expected shape [3], got [2]",
        ),
        (
            (ONES, np.ones(3, np.float64)),
            {},
            TypeError,
            f"{OP}: operand weight: expected dtype float32 as operand x has, "
            "got float64",
        ),
        (
            (ONES,),
            {"residual": ONES[0]},
            ValueError,
            f"{OP}: operand residual: expected shape [2, 3], got [3]",
        ),
        (
            (ONES,),
            {"eps": -1.0},
            ValueError,
            f"{OP}: argument eps: expected a finite number >= 0, got -1.0",
        ),
        (
            (ONES,),
            {"eps": float("nan")},
            ValueError,
            f"{OP}: argument eps: expected a finite number >= 0, got nan",
        ),
        (
            (ONES,),
            {"eps": float("inf")},
            ValueError,
            f"{OP}: argument eps: expected a finite number >= 0, got inf",
        ),
        (
            (ONES,),
            {"eps": "1e-6"},
            TypeError,
            f"{OP}: argument eps: expected a finite number >= 0, got '1e-6' "
            "(str)",
        ),
        (
            (ONES,),
            {"eps": True},
            TypeError,
            f"{OP}: argument eps: expected a finite number >= 0, got True "
            "(bool)",
        ),
        (
            (ONES,),
            {"eps": np.ones(1)},
            TypeError,
            f"{OP}: argument eps: expected a finite number >= 0, got "
            "array([1.]) (ndarray)",
        ),
    ],
)
def test_bad_input(args, kwargs, error, message):
    with pytest.raises(error) as caught:
        xla_ffi_kit.rms_norm(*args, **kwargs)
    assert str(caught.value) == message
    # The process goes on working.
    assert_close(xla_ffi_kit.rms_norm(ONES), expected(ONES), 1e-6)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_in_place(count):
    def f(x, weight=None, residual=None, in_place=True):
        return xla_ffi_kit.rms_norm(
            x, weight, residual=residual, in_place=in_place
        )

    x = make((4, 8), "float32")
    given = (x, x[0] + 1, 2 * x)[:count]
    want = jax.tree.leaves(f(*given, in_place=False))
    pointers = [g.unsafe_buffer_pointer() for g in (given[0], given[-1])]
    jitted = jax.jit(f, donate_argnums=(0, 2)[: len(want)])
    assert " copy(" not in jitted.lower(*given).compile().as_text()
    for got, expected_, pointer in zip(
        jax.tree.leaves(jitted(*given)), want, pointers, strict=False
    ):
        assert got.unsafe_buffer_pointer() == pointer
        np.testing.assert_array_equal(got, expected_)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_variant_has_eps(count, in_place):
    ones = jnp.ones((2, 4), "float32")
    y = xla_ffi_kit.rms_norm(
        ones,
        ones[0] if count > 1 else None,
        residual=0 * ones if count > 2 else None,
        eps=3,
        in_place=in_place,
    )
    np.testing.assert_allclose(jax.tree.leaves(y)[0], 0.5, rtol=1e-6)


def test_in_place_leaves_what_is_not_donated():
    x = make((4, 8), "float32")
    before = np.array(x)
    grad = jax.grad(lambda x: xla_ffi_kit.rms_norm(x, in_place=True)[0, 0])(x)
    y = jax.jit(lambda x: xla_ffi_kit.rms_norm(x, in_place=True))(x)
    assert_close(y, expected(x), 1e-6)
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(
        grad, jax.grad(lambda x: xla_ffi_kit.rms_norm(x)[0, 0])(x)
    )


def test_traced_eps():
    f = jax.jit(lambda x, eps: xla_ffi_kit.rms_norm(x, eps=eps))
    with pytest.raises(TypeError) as caught:
        f(ONES, 1e-6)
    assert str(caught.value) == (
        f"{OP}: argument eps: expected a static number, got a traced one; pass "
        "it as a Python number (jit: static_argnames)"
    )
