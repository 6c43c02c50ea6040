"""jvp, vjp, linear and transpose of a spec: what they get and may return."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import operation, said


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


def two(x, y):
    return x * y, x + y


def vjp(fwd=lambda x, y: (two(x, y), None), bwd=lambda _, ct: (ct[0], ct[1])):
    return {"vjp": (fwd, bwd)}


def transposed(returned):
    linear = {"linear": ("x", "y"), "transpose": lambda *_: returned}
    return linear | {"reference": lambda x, y: x + y}


def jvp(rule):
    return {"jvp": rule}


ONE = jnp.float32(1)
ARRAYS = "expected an array or a tuple of arrays"
EACH = "(None for one without)"
# What the error says -> the rule that it is about.
WRONG = {
    "jvp: expected (results, tangents), got an array": jvp(lambda p, t: t[0]),
    "jvp: expected (results, tangents), got a tuple of 3": jvp(
        lambda p, t: (p, t, ())
    ),
    "jvp: results: expected 2, got 1": jvp(lambda p, t: (p[0], t)),
    "jvp: tangents: expected 2, one for each result, got 3": jvp(
        lambda p, t: (p, (*t, t[0]))
    ),
    f"jvp: results: {ARRAYS}, got a list of 2": jvp(lambda p, t: (list(p), t)),
    f"jvp: tangents: {ARRAYS}, got 0.0": jvp(lambda p, t: (p, (0.0, t[1]))),
    "vjp: fwd: expected (results, residuals), got an array": vjp(
        lambda x, y: two(x, y)[0]
    ),
    "vjp: fwd: results: expected 2, got 1": vjp(lambda x, y: (x, None)),
    f"vjp: fwd: results: {ARRAYS}, got a list of 2": vjp(
        lambda x, y: ([x, y], None)
    ),
    "vjp: fwd: result 0: expected float32[], got int32[]": vjp(
        lambda x, y: ((x.astype(int), y), None)
    ),
    f"vjp: bwd: cotangents: expected 2, one for each operand {EACH}, got 1": (
        vjp(bwd=lambda _, ct: ct[0])
    ),
    "vjp: bwd: cotangents: expected arrays or None, got a dict of 1": vjp(
        bwd=lambda _, ct: {"x": ct[0]}
    ),
    "vjp: bwd: cotangents: expected arrays or None, got 3": vjp(
        bwd=lambda _, ct: 3
    ),
    "vjp: bwd: cotangent 0: expected float32[], got float32[1]": vjp(
        bwd=lambda _, ct: (ct[0][None], ct[1])
    ),
    f"transpose: cotangents: expected 2, one for each linear operand {EACH}, "
    "got 1": transposed((ONE,)),
    "transpose: cotangents: expected arrays or None, got 1.0": transposed(
        (ONE, 1.0)
    ),
    "transpose: cotangent of operand 1: expected float32[], got None": (
        transposed((ONE, None))
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_rule_that_returns_something_else(message):
    op = operation(**{"reference": two} | WRONG[message])

    def gradient(*x):
        return jax.grad(lambda *x: sum(jax.tree.leaves(op(*x))), (0, 1))(*x)

    def pushed(*x):
        return jax.jvp(op, x, x)

    derivative = pushed if message.startswith("jvp") else gradient
    assert said(derivative, ONE, ONE) == f"TypeError: test.op: {message}"
