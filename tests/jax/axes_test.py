"""`axes`: the kernel's axes by name, in the notation of jnp.vectorize."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from xla_ffi_kit import FfiOp
from xla_ffi_kit.primitive import axes


@pytest.mark.parametrize(
    ("text", "operands", "results"),
    [
        ("(m,n),(n)->(m)", [("m", "n"), ("n",)], [("m",)]),
        (" ( m , n ),( )  -> (), (3)", [("m", "n"), ()], [(), ("3",)]),
        ("->(n)", [], [("n",)]),
    ],
)
def test_notation(text, operands, results):
    assert axes.parse(text) == (operands, results)


@pytest.mark.parametrize(
    "text", ["(n)", "n->n", "(n->(n)", "(n),->(n)", "(n m)->()", "(-1)->()", 3]
)
def test_what_is_no_notation(text):
    assert axes.parse(text) is None


def operation(reference=lambda a, x: a @ x, text="(m,n),(n)->(m)", **options):
    return FfiOp("test.axes", reference, axes=text, handlers={}, **options)


def rows(*shape):
    return jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)


def test_each_operand_has_its_own_number_of_axes():
    op = operation(lambda a, x: jnp.einsum("...mn,...n->...m", a, x))
    a, x = rows(3, 4), rows(4)
    np.testing.assert_array_equal(op(a, x), a @ x)
    for f in (op, jax.jit(op)):
        got = jax.vmap(f, (None, 0))(a, rows(2, 4))
        np.testing.assert_allclose(got, rows(2, 4) @ a.T)
    assert op.spec.kernel_axes == (2, 1)


@pytest.mark.parametrize(
    ("reference", "text", "operands", "said"),
    [
        (
            lambda a, x: a @ x,
            "(m,n),(n)->(m)",
            (rows(3, 4), rows(5)),
            "operand x: expected axis -1 of size 4, n as operand a has it, got "
            "5 (shape [5])",
        ),
        (
            lambda x: x,
            "(n,n)->(n,n)",
            (rows(2, 3, 4),),
            "operand x: expected axis -1 of size 3, n as operand x has it, got "
            "4 (shape [2, 3, 4])",
        ),
        (
            lambda x: x,
            "(3)->(3)",
            (rows(4),),
            "operand x: expected axis -1 of size 3, got 4 (shape [4])",
        ),
        (
            lambda x: x[..., :1],
            "(n)->(n)",
            (rows(4),),
            "result 0: expected axis -1 of size 4, n as operand x has it, got "
            "1 (shape [1])",
        ),
    ],
)
def test_axes_of_one_name_have_one_size(reference, text, operands, said):
    op = operation(reference, text)
    for f in (op, jax.jit(op)):
        with pytest.raises(ValueError) as caught:
            f(*operands)
        assert str(caught.value) == f"test.axes: {said}"
    with pytest.raises(ValueError, match="axis -1 of size"):
        jax.vmap(op)(*(x[None] for x in operands))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("(n)->()", "expected 0 kernel axes (), got 1, shape [2, 4]"),
        ("()->(n)", "expected 1 kernel axes (n), got 0, shape [2, 4]"),
    ],
)
def test_results_have_the_axes_that_they_are_said_to_have(text, said):
    op = operation(lambda x: x, text)
    with pytest.raises(ValueError) as caught:
        op(rows(2, 4))
    assert str(caught.value) == f"test.axes: axes: result 0: {said}"


def test_symbolic_sizes_are_left_to_the_reference():
    (n,) = jax.export.symbolic_shape("n")
    op = operation(lambda x: x, "(n)->(n)")
    x = jax.ShapeDtypeStruct((n,), jnp.float32)
    assert jax.eval_shape(op, x).shape == (n,)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"text": "(n)->(n)"},
            "axes: expected the axes of 2 operands (a, x), got 1: (n)->(n)",
        ),
        (
            {"text": "n,n"},
            "axes, kernel_axes: expected one of them, or axes like "
            "'(m,n),(n)->(m)', got 'n,n'",
        ),
        (
            {"kernel_axes": 1},
            "axes, kernel_axes: expected one of them, or axes like "
            "'(m,n),(n)->(m)', got both",
        ),
    ],
)
def test_mistakes(options, said):
    with pytest.raises(ValueError) as caught:
        operation(**options)
    assert str(caught.value) == f"test.axes: {said}"
