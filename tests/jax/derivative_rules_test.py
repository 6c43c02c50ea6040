"""jvp, vjp, linear and transpose of a spec: what they get and may return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xla_ffi_kit import FfiOp


def operation(reference=lambda x, y: x * y, **options):
    return FfiOp("test.rule", reference, **HERE | options)


HERE = {"kernel_axes": 0, "handlers": {}}
PRODUCTS = {
    "reference": operation(),
    "jvp": operation(
        jvp=lambda p, t: (p[0] * p[1], p[0] * t[1] + t[0] * p[1])
    ),
    "vjp": operation(
        vjp=(
            lambda x, y: (x * y, (x, y)),
            lambda saved, ct: (ct * saved[1], ct * saved[0]),
        )
    ),
    "linear": operation(linear=(0,)),
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
