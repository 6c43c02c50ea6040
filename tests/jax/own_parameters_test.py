"""Parameters that decide the types of results, and that no handler gets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import LIBRARY, rows, said

from xla_ffi_kit import FfiOp
from xla_ffi_kit.testing import Case, check_op

X = rows(2, 6)


def reference(x, *, shape=(6,)):
    return 2 * x.reshape(*x.shape[:-1], *shape)


def define(function=reference, **options):
    given = {"kernel_axes": 1, "attributes": {"shape": None}}
    return FfiOp(
        "test.double", function, libraries=LIBRARY, **(given | options)
    )


double = define()


def test_only_the_types_of_results_follow_from_it():
    check_op(double, [Case("float32[2,6]", shape=(3, 2))])
    assert double(X).shape == (2, 6)
    text = jax.jit(lambda x: double(x, shape=(2, 3))).lower(X).as_text()
    assert "@test.double" in text and "shape" not in text


def test_a_shape_function_and_attributes_of_its_name():
    def result(x, *, last):
        return jax.ShapeDtypeStruct((x.shape[0] // last, last), x.dtype)

    op = FfiOp(
        "test.double",
        results=result,
        kernel_axes=1,
        libraries=LIBRARY,
        attributes={"last": None},
    )
    np.testing.assert_array_equal(
        jax.vmap(lambda x: op(x, last=3))(X), reference(X, shape=(2, 3))
    )


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([2, 3], r"a hashable value, such as a tuple, got \[2, 3\] \(list\)"),
        (jnp.ones(2), "a hashable value, such as a tuple, got "),
    ],
)
def test_a_value_that_cannot_be_a_key(shape, message):
    with pytest.raises(TypeError, match=f"attribute shape: expected {message}"):
        double(X, shape=shape)


def test_a_traced_value():
    with pytest.raises(TypeError, match="attribute shape: expected a static"):
        jax.jit(lambda x, n: double(x, shape=n))(X, 2)


def of_signed(reference, **options):
    return FfiOp(
        "test.signed",
        reference,
        axes="(n),(m)->(n),(k)",
        libraries=LIBRARY,
        **options,
    )


def test_a_handler_that_does_not_take_a_parameter():
    def takes_more(x, weight, *, axis, count, eps, k, mode, strides):
        return x, x[..., :k]

    assert said(of_signed, takes_more) == (
        "ValueError: test.signed: attributes: expected {axis, count, eps, "
        "mode, strides}, as the handler test.signed of test_handlers.so takes "
        'them, got {axis, count, eps, k, mode, strides}; attributes={"k": '
        "None} keeps such from it"
    )
    of_signed(takes_more, attributes={"k": None})


def test_two_stars_take_what_the_signature_has():
    def takes_all(x, weight, *, k, **attributes):
        return x, x[..., : attributes["count"]]

    op = of_signed(takes_all, attributes={"k": None})
    given = {"axis": 0, "count": 2, "eps": 0.5, "mode": "fast"}
    y, counted = jax.eval_shape(
        lambda x: op(x, x, k=1, strides=(1, 2), **given), X
    )
    assert (y.shape, counted.shape) == ((2, 6), (2, 2))
    with pytest.raises(TypeError, match="expected axis, count, eps, k, mode"):
        op(X, X, k=1)
