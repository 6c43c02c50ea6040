"""jvp, vjp, linear and transpose of a spec: what they get and may return."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import assert_close, failure_of, operation

from xla_ffi_kit import FfiOp
from xla_ffi_kit.testing import CHECKS, Case, check_op

ONE = jnp.float32(1)


def product(**options):
    return operation(lambda x, y: x * y, **options)


PRODUCTS = {
    "reference": product(),
    "jvp": product(jvp=lambda p, t: (p[0] * p[1], p[0] * t[1] + t[0] * p[1])),
    "vjp": product(
        vjp=(
            lambda x, y: (x * y, (x, y)),
            lambda saved, ct: (ct * saved[1], ct * saved[0]),
        )
    ),
    "linear": product(linear="x"),
    "bilinear": product(bilinear=("x", "y")),
}


@pytest.mark.parametrize("rule", PRODUCTS)
def test_python_scalars(rule):
    op = PRODUCTS[rule]
    for f in (op, jax.jit(op)):
        assert jax.grad(f, (0, 1))(2.0, 3.0) == (3, 2)
        if rule != "vjp":
            assert jax.jvp(f, (2.0, 3.0), (1.0, np.float32(1))) == (6, 5)
    ys = jnp.arange(3.0)
    of_rows = jax.vmap(lambda y: jax.grad(op)(2.0, y))
    np.testing.assert_array_equal(of_rows(ys), ys)


def test_vjp_keeps_what_fwd_returns_and_nothing_else():
    op = operation(
        lambda x, y: 2 * x + y,
        vjp=(lambda x, y: (2 * x + y, None), lambda _, ct: (2 * ct, ct)),
    )
    x = jnp.ones((3, 4))
    for f in (op, jax.jit(op), jax.vmap(op)):
        _, back = jax.vjp(f, x, x)
        assert [leaf.shape for leaf in jax.tree.leaves(back)] == []
        np.testing.assert_array_equal(back(x)[0], 2 * x)


# --- Bilinear -----------------------------------------------------------------


def apply(k, a, x):
    """An integer, a matrix and a vector, of which the last may be shared."""
    y = k[..., None] * jnp.einsum("...mn,...n->...m", a, x)
    return y, y[..., ::-1], jnp.asarray(jnp.sign(k), np.int32)


def transposed_apply(cts, k, a, x):
    """The cotangent of the matrix or the vector, whichever is not known."""
    zero = jnp.zeros(())
    y, reversed_y = (zero if ct is None else ct for ct in cts[:2])
    ct = k[..., None] * (y + reversed_y[..., ::-1])
    if isinstance(x, jax.Array):
        return jnp.einsum("...m,...n->...mn", ct, x), None
    if not k.ndim:
        return None, ct @ a
    batch = tuple(range(k.ndim))
    return None, jnp.sum(jnp.einsum("...m,...mn->...n", ct, a), batch)


def shapes_of_apply(k, a, x):
    y = jax.ShapeDtypeStruct(a.shape[:-1], a.dtype)
    return y, y, jax.ShapeDtypeStruct((), np.int32)


BILINEAR = {
    "axes": "(),(m,n),(n)->(m),(m),()",
    "bilinear": ("a", "x"),
    "shared": "x",
}
APPLIES = {
    "the reference's": operation(apply, kernel_axes=None, **BILINEAR),
    "transpose=": operation(
        apply, kernel_axes=None, transpose=transposed_apply, **BILINEAR
    ),
    "without a reference": FfiOp(
        "test.op",
        results=shapes_of_apply,
        handlers={"cpu": apply},
        transpose=transposed_apply,
        **BILINEAR,
    ),
}
K = np.array([2, -1, 3], np.int32)
A = np.random.default_rng(0).normal(size=(3, 2, 4)).astype(np.float32)
V = np.arange(4, dtype=np.float32)


@functools.partial(jax.jit, static_argnums=0)
def derivatives_of_apply(f, a, x):
    """All kinds of derivatives, towards each operand and both."""

    def loss(a, x, k=K):
        y, z, _ = f(k, a, x)
        return jnp.sum(jnp.sin(y)) + jnp.sum(z[..., :1] ** 2)

    def floats(a, x):
        return f(K[0], a, x)[:2]

    grads = jax.grad(loss, (0, 1))
    both = (jax.jacfwd, jax.jacrev)
    return (
        loss(a, x),
        grads(a, x),
        jax.jvp(lambda x: floats(a[0], x), (x,), (jnp.cos(x),)),
        jax.jvp(floats, (a[0], x), (jnp.cos(a[0]), jnp.cos(x))),
        [j(floats, (0, 1))(a[0], x) for j in both],
        jax.hessian(lambda *ax: loss(*ax, K[0]), (0, 1))(a[0], x),
        jax.grad(lambda a, x: jnp.sum(grads(a, x)[1] ** 2), (0, 1))(a, x),
        jax.vmap(jax.grad(loss, (0, 1)), (None, 0))(a, jnp.stack([x, 2 * x])),
        jax.grad(lambda x: jnp.sum(f(K, a, x)[1]))(x),
    )


@pytest.mark.parametrize("rule", APPLIES)
def test_bilinear(rule):
    got = derivatives_of_apply(APPLIES[rule], A, V)
    want = derivatives_of_apply(apply, A, V)
    assert_close(got, want, rtol=2e-5, atol=1e-5)


def test_bilinear_on_meshes():
    skip = {*CHECKS} - {
        "grad",
        "auto mesh",
        "explicit mesh",
        "uneven batch on meshes",
        "shard_map",
    }
    op = APPLIES["the reference's"]
    check_op(op, [Case("int32[]", "float32[2,4]", "float32[4]")], skip=skip)


# A product is linear in each, and says that it is linear in both together.
@pytest.mark.parametrize("check", ["jvp", "grad"])
def test_check_op_tells_linear_together_from_bilinear(check):
    op = product(linear=("x", "y"))
    row = failure_of(op, Case("float32[3]", "float32[3]"), check)
    assert row.message.endswith(
        "; linear=('x', 'y') says that results are linear together, that "
        "op(x, y) is op(x, 0) + op(0, y), which the reference is not; if they "
        "are linear in each while the other is fixed: bilinear=('x', 'y')"
    )


def test_check_op_tells_what_is_not_bilinear():
    op = operation(lambda x, y: x + y, bilinear=("x", "y"))
    row = failure_of(op, Case("float32[3]", "float32[3]"), "jvp")
    assert row.message.endswith(
        "; bilinear=('x', 'y') says that op(0, y) and op(x, 0) are 0, which "
        "the reference's are not"
    )
