"""Primitives with lowering rules by hand: HLO operations, custom calls."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import ad, batching, mlir

import xla_ffi_kit  # registers the target xla_ffi_kit.relu


def primitive(name):
    p = Primitive(name)
    p.def_abstract_eval(lambda x: x.update(weak_type=False))
    p.def_impl(jax.jit(p.bind))
    return p


plus_one_p = primitive("plus_one")


def plus_one_to_hlo(ctx, x):
    (aval,) = ctx.avals_in
    one = mlir.ir_constant(np.ones(aval.shape, aval.dtype))
    return [stablehlo.add(x, one)]


mlir.register_lowering(plus_one_p, plus_one_to_hlo)

log1p_p = primitive("log1p_by_hand")
mlir.register_lowering(log1p_p, lambda ctx, x: [stablehlo.log_plus_one(x)])

relu_p = primitive("relu_by_hand")


def relu_to_hlo(ctx, x):
    (aval,) = ctx.avals_in
    zero = mlir.ir_constant(np.zeros(aval.shape, aval.dtype))
    return [stablehlo.maximum(x, zero)]


mlir.register_lowering(relu_p, relu_to_hlo)  # every platform
mlir.register_lowering(  # takes precedence, on its platform
    relu_p, jax.ffi.ffi_lowering("xla_ffi_kit.relu"), platform="cpu"
)
batching.defvectorized(relu_p)  # elementwise: a batch is just a larger array
ad.defjvp(relu_p, lambda t, x: jnp.where(x > 0, t, jnp.zeros_like(t)))

X = np.array([[-0.5, 2.0], [3.0, -0.25]], np.float32)


@pytest.mark.parametrize(
    ("p", "operation", "want"),
    [
        (plus_one_p, "add", X + 1),
        (log1p_p, "log_plus_one", np.log1p(X)),
        (relu_p, "maximum", np.maximum(X, 0)),
    ],
)
def test_lowered_on_three_platforms_and_run_on_one(p, operation, want):
    np.testing.assert_allclose(p.bind(X), want, 1e-6)
    traced = jax.jit(p.bind).trace(X)
    for platform in ("cpu", "cuda", "tpu"):
        text = traced.lower(lowering_platforms=(platform,)).as_text()
        if (p, platform) == (relu_p, "cpu"):
            operation_here = "custom_call @xla_ffi_kit.relu"
        else:
            operation_here = operation
        assert f"stablehlo.{operation_here}" in text, platform
        assert text.count("stablehlo.custom_call") == (
            operation_here != operation
        )


def test_batching_and_derivatives():
    relu = relu_p.bind
    assert (jax.vmap(relu)(X) == np.maximum(X, 0)).all()
    assert (jax.grad(lambda x: relu(x).sum())(X) == (X > 0)).all()


def test_no_rule_is_an_error():
    p = primitive("without_a_rule")
    says = "rule for primitive 'without_a_rule' not found for platform cpu"
    with pytest.raises(NotImplementedError, match=says):
        p.bind(X)
    with pytest.raises(NotImplementedError, match="without_a_rule"):
        jax.grad(lambda x: p.bind(x).sum())(X)


def scores_type(x, w):
    return x.update(shape=(x.shape[0], 1), weak_type=False)


def left_scores_to_hlo(ctx, x, w):
    (n, k), _ = (aval.shape for aval in ctx.avals_in)
    element = ir.RankedTensorType(x.type).element_type
    left = stablehlo.slice(x, [0, 0], [n, k // 2], [1, 1])  # from, to, step
    across = stablehlo.transpose(left, [1, 0])
    # No batch dimensions; dimension 0 of both is summed over.
    sum_over = stablehlo.DotDimensionNumbers.get([], [], [0], [0])
    scores = stablehlo.dot_general(
        ir.RankedTensorType.get([n], element), across, w, sum_over
    )
    return [stablehlo.reshape(ir.RankedTensorType.get([n, 1], element), scores)]


left_scores_p = Primitive("left_scores")
left_scores_p.def_abstract_eval(scores_type)
mlir.register_lowering(left_scores_p, left_scores_to_hlo)


def left_scores(x, w):
    left = jax.lax.slice(x, (0, 0), (x.shape[0], x.shape[1] // 2))
    scores = jax.lax.dot_general(left.T, w, (((0,), (0,)), ((), ())))
    return scores.reshape(-1, 1)


traced_p = Primitive("left_scores_traced")
traced_p.def_abstract_eval(scores_type)
by_jax = mlir.lower_fun(left_scores, multiple_results=False)
mlir.register_lowering(traced_p, by_jax)


@pytest.mark.parametrize("p", [left_scores_p, traced_p])
def test_several_operations(p):
    x, w = jnp.arange(12.0).reshape(3, 4), jnp.array([1.0, 10.0])
    f = jax.jit(p.bind)
    np.testing.assert_array_equal(f(x, w), (x[:, :2] @ w)[:, None])
    text = f.lower(x, w).as_text()
    for operation in ("slice", "transpose", "dot_general", "reshape"):
        assert text.count(f"stablehlo.{operation} ") == 1, text


def test_a_rule_that_is_wrong():
    # Of another type than was promised: JAX's verifier says where.
    p = primitive("wrong_type")
    mlir.register_lowering(p, lambda ctx, x: [stablehlo.transpose(x, [1, 0])])
    with pytest.raises(ValueError, match=r"tensor<3x2xf32>.*tensor<2x3xf32>"):
        jax.jit(p.bind).lower(np.ones((2, 3), np.float32))
    # Of the right type: nothing is said, and the text has the operation.
    p = primitive("wrong_operation")
    mlir.register_lowering(p, lambda ctx, x: [stablehlo.subtract(x, x)])
    lowered = jax.jit(p.bind).lower(X)
    assert "stablehlo.subtract %arg0, %arg0" in lowered.as_text()


def test_the_same_as_an_ffi_op():
    relu_op = xla_ffi_kit.FfiOp(
        "xla_ffi_kit.relu",
        lambda x: jax.nn.relu(x),
        kernel_axes=0,  # every axis is a batch axis
        libraries=xla_ffi_kit.ops.LIBRARIES,
    )
    np.testing.assert_array_equal(relu_op(X), relu_p.bind(X))
