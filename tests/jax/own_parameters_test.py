"""Parameters that decide the types of results, and that no handler gets."""

import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.testing import Case, check_op

LIBRARY = xla_ffi_kit.HandlerLibrary(
    pathlib.Path(__file__).parent / "test_handlers.so"
)
X = jnp.arange(12.0, dtype=np.float32).reshape(2, 6)


def reference(x, *, shape=(6,)):
    return 2 * x.reshape(*x.shape[:-1], *shape)


def define(function=reference, **options):
    given = {"kernel_axes": 1, "attributes": {"shape": None}}
    return FfiOp(
        "test.double", function, libraries=LIBRARY, **(given | options)
    )


double = define()


def test_only_the_types_of_results_follow_from_it():
    want = reference(X, shape=(2, 3))
    call = jax.jit(lambda x: double(x, shape=(2, 3)))
    for got in (call(X), double(X, shape=(2, 3)), jax.vmap(call)(X)):
        np.testing.assert_array_equal(got, want)
    assert double(X).shape == (2, 6)
    text = call.lower(X).as_text()
    assert "@test.double" in text and "shape" not in text
    grad = jax.grad(lambda x: (double(x, shape=(3, 2)) ** 2).sum())(X)
    np.testing.assert_array_equal(grad, 8 * X)


def test_exported_and_under_check_op():
    call = jax.jit(lambda x: double(x, shape=(2, 3)))
    checks = xla_ffi_kit.export_checks(double)
    exported = jax.export.export(call, disabled_checks=checks)(X)
    np.testing.assert_array_equal(exported.call(X), call(X))
    report = check_op(double, [Case("float32[2,6]", shape=(3, 2))])
    assert all(row.status != "failed" for row in report.rows)


def test_equal_values_are_one_program_and_others_are_not():
    traced = []

    def noted(x, *, scale):
        traced.append(scale)
        return x * scale

    op = define(noted, attributes={"scale": None}, handlers={})
    got = [op(X, scale=scale) for scale in (0.0, -0.0, 0.0, 2, 2.0, True)]
    assert np.signbit(got[1]).all() and not np.signbit(got[2]).any()
    kinds = {(type(scale), str(scale)) for scale in traced}
    assert len(kinds) == 5


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


def test_a_handler_that_does_not_take_a_parameter():
    def takes_more(x, weight, *, axis, count, eps, k, mode, strides):
        return x, x[..., :k]

    with pytest.raises(ValueError) as caught:
        FfiOp(
            "test.signed",
            takes_more,
            axes="(n),(m)->(n),(k)",
            libraries=LIBRARY,
        )
    assert str(caught.value) == (
        "test.signed: attributes: expected {axis, count, eps, mode, strides}, "
        "as the handler test.signed of test_handlers.so takes them, got {axis, "
        'count, eps, k, mode, strides}; attributes={"k": None} keeps such from '
        "it"
    )
    FfiOp(
        "test.signed",
        takes_more,
        axes="(n),(m)->(n),(k)",
        libraries=LIBRARY,
        attributes={"k": None},
    )


def test_two_stars_take_what_the_signature_has():
    def takes_all(x, weight, *, k, **attributes):
        return x, x[..., : attributes["count"]]

    op = FfiOp(
        "test.signed",
        takes_all,
        axes="(n),(m)->(n),(k)",
        libraries=LIBRARY,
        attributes={"k": None},
    )
    given = {"axis": 0, "count": 2, "eps": 0.5, "mode": "fast"}
    y, rows = jax.eval_shape(
        lambda x: op(x, x, k=1, strides=(1, 2), **given), X
    )
    assert (y.shape, rows.shape) == ((2, 6), (2, 2))
    with pytest.raises(TypeError, match="expected axis, count, eps, k, mode"):
        op(X, X, k=1)
