"""`axes`: the kernel's axes by name, in the notation of jnp.vectorize."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from common import rows, said

from xla_ffi_kit import FfiOp


def same(x):
    return x


def operation(text="(m,n),(n)->(m)", reference=lambda a, x: a @ x, **options):
    return FfiOp("test.axes", reference, axes=text, handlers={}, **options)


@pytest.mark.parametrize("text", ["(m,n),(n)->(m)", " ( m , n ),( n )  -> (m)"])
def test_each_operand_has_its_own_number_of_axes(text):
    op = operation(text, lambda a, x: jnp.einsum("...mn,...n->...m", a, x))
    a, x = rows(3, 4), rows(4)
    np.testing.assert_array_equal(op(a, x), a @ x)
    for f in (op, jax.jit(op)):
        got = jax.vmap(f, (None, 0))(a, rows(2, 4))
        np.testing.assert_allclose(got, rows(2, 4) @ a.T)
    assert op.spec.kernel_axes == (2, 1)


def test_no_operands():
    assert operation("->(n)", lambda: jnp.ones(3))().shape == (3,)


# The error -> the operation and its operands.
SIZES = {
    "operand x: expected axis -1 of size 4, n as operand a has it, got 5 "
    "(shape [5])": (operation(), rows(3, 4), rows(5)),
    "operand x: expected axis -1 of size 3, n as operand x has it, got 4 "
    "(shape [2, 3, 4])": (operation("(n,n)->(n,n)", same), rows(2, 3, 4)),
    "operand x: expected axis -1 of size 3, got 4 (shape [4])": (
        operation("(3)->(3)", same),
        rows(4),
    ),
    "result 0: expected axis -1 of size 4, n as operand x has it, got 1 (shape "
    "[1])": (operation("(n)->(n)", lambda x: x[..., :1]), rows(4)),
    "axes: result 0: expected 0 kernel axes (), got 1, shape [2, 4]": (
        operation("(n)->()", same),
        rows(2, 4),
    ),
    "axes: result 0: expected 1 kernel axes (n), got 0, shape [2, 4]": (
        operation("()->(n)", same),
        rows(2, 4),
    ),
}


@pytest.mark.parametrize("message", SIZES)
def test_axes_have_the_sizes_that_they_are_said_to_have(message):
    op, *operands = SIZES[message]
    for f in (op, jax.jit(op)):
        assert said(f, *operands) == f"ValueError: test.axes: {message}"
    with pytest.raises(ValueError, match="axis -1 of size|kernel axes"):
        jax.vmap(op)(*(x[None] for x in operands))


def test_symbolic_sizes_are_left_to_the_reference():
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((n,), jnp.float32)
    assert jax.eval_shape(operation("(n)->(n)", same), x).shape == (n,)


ONE = "axes, kernel_axes: expected one of them, or axes like '(m,n),(n)->(m)'"
WRONG = ["(n)", "n->n", "(n->(n)", "(n),->(n)", "(n m)->()", "(-1)->()", 3]
MISTAKES = {
    "axes: expected the axes of 2 operands (a, x), got 1: (n)->(n)": {
        "text": "(n)->(n)"
    },
    **{f"{ONE}, got {text!r}": {"text": text} for text in WRONG},
    f"{ONE}, got both": {"kernel_axes": 1},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes(message):
    got = said(operation, **MISTAKES[message], of="test.axes")
    assert got == f"ValueError: {message}"
