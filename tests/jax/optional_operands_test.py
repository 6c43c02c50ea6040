"""Operands that a call may leave out, and operands of any number."""

import inspect

import jax
import numpy as np
import pytest
from common import assert_close, operation, said

from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.ops.rms_norm import rms_norm_bwd_op, rms_norm_op
from xla_ffi_kit.testing import CHECKS, Case, check_op


def reference(x, w=None, b=None, *, times=2.0):
    """times x w + b, and the sum if there is a bias."""
    y = times * (x if w is None else x * w)
    return y if b is None else (y + b, x + b)


seen = []


def record(*operands, times):
    seen.append(tuple(x is not None for x in operands))


scale = FfiOp(
    "test.scale",
    reference,
    axes="(n),(n),(n)->(n)",
    shared="w",
    linear=("x", "b"),
    handlers={"cpu": reference},
    attributes={"times": np.float64},
    advanced=Advanced(check=record),
)
X, W, B = (np.float32(v) for v in (np.ones((2, 3)), [1, 2, 3], [[4] * 3] * 2))


def close(got, want):
    leaves = [jax.tree.leaves(tree) for tree in (got, want)]
    assert_close(*leaves, rtol=1e-6)


GIVEN = [(X,), (X, W), (X, None, B), (X, W, B), (X, None), (X, None, None)]


@pytest.mark.parametrize("operands", GIVEN)
def test_none_is_left_out(operands):
    for f in (scale, jax.jit(scale), jax.jit(jax.jit(scale))):
        close(f(*operands), reference(*operands))
    close(
        scale(*operands, times=3.0, implementation="reference"),
        reference(*operands, times=3.0),
    )
    given = [x for x in operands if x is not None]
    jaxpr = jax.make_jaxpr(lambda *xs: scale(*xs))(*operands)
    (call,) = jaxpr.eqns
    assert call.primitive.name == "test.scale"
    assert len(call.invars) == len(given)


def test_by_name_and_as_it_looks():
    close(scale(X, b=B), reference(X, b=B))
    close(scale(b=B, x=X, w=None), reference(X, b=B))
    assert str(inspect.signature(scale)) == (
        "(x, w=None, b=None, *, times=2.0, implementation=None)"
    )
    assert str(inspect.signature(scale.given(X, None, B))) == (
        "(x, b=None, *, times=2.0, implementation=None)"
    )
    assert scale.given(X, None, B) is scale.given(1, None, 1)
    assert scale.given(X, W, B) is scale


def test_a_check_gets_none_for_it():
    seen.clear()
    x = np.ones((5, 3), np.float32)
    scale(x, None, x)
    assert seen == [(True, False, True)]


def test_check_op_of_some_operands():
    names = {"values", "vmap", "jvp", "grad", "jacobians", "export"}
    names |= {"batch axes", "attributes"}
    row = "float32[3]"
    cases = [
        *(Case(row, None, row), Case(row), Case(row, row, row)),
        Case("float32[2,3]", row, times=1.5),
    ]
    report = check_op(scale, cases, skip=set(CHECKS) - names)
    assert {row.status for row in report.rows} == {"passed"}
    assert repr(cases[0]) == "Case('float32[3]', None, 'float32[3]')"


def test_the_rules_of_an_author_get_none_for_it():
    def jvp(primals, tangents, *, times):
        (x, w, b), (dx, dw, db) = primals, tangents
        assert b is None and db is None
        return op(x, w, times=times), dx * w + x * dw

    def bwd(saved, ct, *, times):
        return ct * saved, None, ct  # the last one is of no operand

    made = {"attributes": {"times": np.float64}}
    op = operation(reference, jvp=jvp, **made)
    _, tangent = jax.jvp(op, (X, X), (X, 2 * X))
    close(tangent, 3 * X)
    vjp = (lambda x, w, b, *, times: (reference(x, w, times=times), w), bwd)
    op = operation(reference, vjp=vjp, **made)
    close(jax.grad(lambda x: op(x, 3 * X).sum())(X), 3 * X)


def test_an_operand_that_replaces_an_attribute():
    s = np.ones(2, np.float32)
    close(rms_norm_bwd_op(X, B, eps=0.0), rms_norm_bwd_op(X, B, s))
    with pytest.raises(TypeError, match="attributes: expected eps, got none"):
        rms_norm_bwd_op(X, B)
    with pytest.raises(TypeError, match="attributes: expected none, got eps"):
        rms_norm_bwd_op(X, B, s, eps=0.0)


def test_a_handler_that_tells_operands_by_their_number():
    assert said(rms_norm_op, X, None, B, eps=0.0) == (
        "TypeError: xla_ffi_kit.rms_norm: operands: expected x and weight if "
        "there are 2, as the handler tells them by their number, got x, "
        "residual"
    )


# --- Operands of any number ---------------------------------------------------


def add(first, *more):
    return first + sum(more)


total = operation(
    add, kernel_axes=1, handlers={"cpu": add}, linear=("first", "more")
)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_repeated_operands(count):
    names = {"values", "vmap", "grad", "jvp"}
    check_op(total, [Case(*["float32[3]"] * count)], skip=set(CHECKS) - names)


def weigh(x=None, y=None, *more):
    """Each operand with a weight of its own."""
    pairs = zip((1, 10, 100, 1000), (x, y, *more), strict=False)
    return sum(w * v for w, v in pairs if v is not None)


weighed = operation(weigh, kernel_axes=1, handlers={"cpu": weigh})
PATTERNS = [
    *[(X,), (X, None), (None, X), (X, X), (None, None, X), (X, None, X)],
    *[(None, X, X), (X, X, X), (None, None, X, X), (X, None, X, X)],
]


def test_operands_are_told_apart_by_which_of_them_are_none():
    mapped, jitted = jax.vmap(weighed), jax.jit(weighed)
    for operands in (*PATTERNS, *reversed(PATTERNS)):
        want = weigh(*operands)
        for f in (weighed, jitted, mapped, jax.jit(mapped), jax.vmap(jitted)):
            close(f(*operands), want)
        given = [i for i, v in enumerate(operands) if v is not None]
        grads = jax.grad(lambda *xs: weighed(*xs).sum(), given)(*operands)
        close(grads, [np.full_like(X, 10.0**i) for i in given])


@pytest.mark.parametrize("operands", [(X, X, None), (X, X, None, X)])
def test_none_is_no_repeated_operand(operands):
    for f in (weighed, jax.jit(weighed), jax.vmap(weighed)):
        with pytest.raises(TypeError, match=r"operand more\[0\]: .*, got None"):
            f(*operands)
