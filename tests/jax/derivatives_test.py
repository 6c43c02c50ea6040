"""Derivatives of the public functions in the mixtures that check_op leaves out.

check_op_test has jvp, vjp, linearize, Jacobians, second order and vmap of each
operation; hypothesis_test nests them, with scan and remat.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import assert_close, count

import xla_ffi_kit
from xla_ffi_kit import modular_add, relu, rms_norm

jax.config.update("jax_enable_x64", True)


def data(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def fused(x, w, r):
    y, total = rms_norm(x, w, residual=r, eps=1e-2)
    return y * jnp.sin(total)


def block(x, w, r):
    return relu(modular_add(r[..., :2], fused(x, w, r))) ** 2


FUNCTIONS = {"fused": fused, "block": block}
OPERANDS = (data(2, 3), data(3, seed=1), data(2, 3, seed=2))
ALL = (0, 1, 2)


def loss_of(function):
    return lambda *p: jnp.sum(function(*p) ** 2 + function(*p))


def directional(function):
    """Forward over reverse."""
    return lambda *p: jax.jvp(jax.grad(loss_of(function), ALL), p, p)


TRANSFORMS = {
    "linear_transpose": lambda f: (
        lambda *p: jax.linear_transpose(jax.linearize(f, *p)[1], *p)(f(*p))
    ),
    "third order": lambda f: jax.grad(
        lambda *p: jnp.sum(directional(f)(*p)[1][0]), 0
    ),
    "vmap of hessian": lambda f: (
        lambda x, w, r: jax.vmap(
            jax.hessian(loss_of(f), ALL), (None, 0, None), 1
        )(x, jnp.stack([w, 2 * w]), r)
    ),
    "grad of cond": lambda f: jax.grad(
        lambda *p: jnp.sum(jax.lax.cond(p[0][0, 0] > 0, f, fused, *p)), ALL
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_like_the_reference(function, transform):
    transformed = jax.jit(TRANSFORMS[transform](FUNCTIONS[function]))
    got = transformed(*OPERANDS)
    with xla_ffi_kit.use_reference():
        assert "custom_call" not in transformed.lower(*OPERANDS).as_text()
        want = transformed(*OPERANDS)
    assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_against_finite_differences():
    from jax.test_util import check_grads

    check_grads(fused, OPERANDS, order=2, modes=("fwd", "rev"))


def test_integer_operands_have_float0_tangents():
    b, c = jnp.arange(3), jnp.arange(7)
    zero = np.zeros(3, jax.dtypes.float0), np.zeros(7, jax.dtypes.float0)
    out, tangent = jax.jvp(modular_add, (b, c), zero)
    assert tangent.dtype == jax.dtypes.float0
    np.testing.assert_array_equal(out, modular_add(b, c))
    (got,) = jax.vjp(modular_add, b, c)[1](np.zeros(7, jax.dtypes.float0))[:1]
    assert got.dtype == jax.dtypes.float0


def test_dead_derivatives_cost_nothing():
    # Only dw is asked for, so no handler computes dx.
    grad = jax.jit(jax.grad(loss_of(fused), 1))
    text = grad.lower(*OPERANDS).compile().as_text()
    assert "xla_ffi_kit.rms_norm_bwd" not in text


def test_the_gradient_alone_does_not_run_the_forward():
    x = OPERANDS[0]
    for loss, forward in (
        (lambda x: jnp.vdot(rms_norm(x), OPERANDS[0]), False),
        (lambda x: jnp.sum(rms_norm(x) ** 3), True),
    ):
        text = jax.jit(jax.grad(loss)).lower(x).compile().as_text()
        assert 'target="xla_ffi_kit.rms_norm_bwd"' in text
        assert ('target="xla_ffi_kit.rms_norm"' in text) == forward
        assert "rsqrt" not in text  # nothing of the reference


def test_linearize_runs_the_forward_once():
    def linearized(x):
        return jax.linearize(rms_norm, x)[1](x)

    for name in ("xla_ffi_kit.rms_norm", "xla_ffi_kit.rms_norm_bwd"):
        assert count(linearized, OPERANDS[0], what=name) == 1
