"""FfiOp's spec: attributes and vmap methods."""

import os
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.primitive import attribute_values

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_handlers.so")
)


def rows(shape, start=0.0):
    return jnp.arange(start, start + np.prod(shape), dtype=np.float32).reshape(
        shape
    )


def count(function, *args, what):
    return str(jax.make_jaxpr(function)(*args)).count(f" {what}[")


def spec(reference=lambda x: 2 * x, **kwargs):
    given = {"kernel_axes": 1, "libraries": [LIBRARY]}
    return FfiOp("test.double", reference, **(given | kwargs))


double = spec()


# --- Attributes ---------------------------------------------------------------


def describe_reference(x, *, integer, text, list, options, flag):
    values = (integer, len(text), sum(list), options["scale"], flag)
    return x * 0 + jnp.array(values, x.dtype)


describe = FfiOp(
    "test.describe",
    describe_reference,
    kernel_axes=1,
    libraries=[LIBRARY],
    attributes={
        "integer": np.int32,
        "text": str,
        "list": (np.int64,),
        "options": {"scale": np.float64},
        "flag": np.bool_,
    },
)
GOOD = {
    "integer": 3,
    "text": "abcd",
    "list": [1, 2, 3],
    "options": {"scale": 0.5},
    "flag": True,
}


def test_every_kind_of_attribute():
    x = rows(5)
    want = [3, 4, 6, 0.5, 1]
    np.testing.assert_array_equal(describe(x, **GOOD), want)
    jitted = jax.jit(lambda x: describe(x, **GOOD))
    np.testing.assert_array_equal(jitted(x), want)
    reference = describe(x, implementation="reference", **GOOD)
    np.testing.assert_array_equal(reference, want)
    numpy = GOOD | {"integer": np.int64(3), "list": np.array([1, 2, 3])}
    np.testing.assert_array_equal(describe(x, **numpy), want)


def test_attributes_are_compared_bit_for_bit():
    scale = {"options": {"scale": -0.0}}
    assert np.signbit(describe(rows(5), **GOOD | scale)[3])
    scale = {"options": {"scale": 0.0}}
    assert not np.signbit(describe(rows(5), **GOOD | scale)[3])
    scale = {"options": {"scale": float("nan")}}
    assert np.isnan(describe(rows(5), **GOOD | scale)[3])
    inverse = FfiOp(
        "test.inverse",
        lambda x, *, s: x + (1 if str(s) == "0.0" else -1),
        kernel_axes=0,
        handlers={},
        attributes={"s": np.float32},
    )
    signs = [float(inverse(rows(()), s=s)) for s in (0.0, -0.0, 0.0)]
    assert signs == [1, -1, 1]


class Secret(str):
    """A string whose repr does not tell it."""

    def __repr__(self):
        return "Secret"


def test_attributes_are_compared_by_value_and_not_as_they_are_printed():
    x = rows(5)
    for text in ("abc", "abcdef", "a"):
        assert describe(x, **GOOD | {"text": Secret(text)})[1] == len(text)
    seen = []
    op = FfiOp(
        "test.sign",
        lambda x, *, s, many: (seen.append((s, many)), x)[1],
        kernel_axes=0,
        handlers={},
        attributes={"s": np.float32, "many": (np.float64,)},
    )
    nan = float("nan")
    given = [(nan, [1.0]), (-nan, [1.0]), (nan, [nan]), (nan, [-nan])]
    for s, many in given:
        seen.clear()
        op(rows(()), s=s, many=many)
        assert [np.signbit(s) for s, _ in seen][:1] == [np.signbit(s)]
        assert np.signbit(seen[0][1]) == np.signbit(many)
        seen.clear()
        op(rows(()), s=s, many=many)
        assert not seen  # it is found again


# In each line, Python finds all values equal.
ALIKE = [(1, True, 1.0, 1 + 0j), (0.0, -0.0, 0j, -0j, False)]


@pytest.mark.parametrize(
    "nest", [lambda v: v, lambda v: (None, (v,)), lambda v: frozenset([(v,)])]
)
@pytest.mark.parametrize("values", ALIKE)
def test_what_no_handler_gets_is_told_apart_in_a_tuple_too(nest, values):
    seen = []
    op = FfiOp(
        "test.any",
        lambda x, *, m: (seen.append(m), x)[1],
        kernel_axes=0,
        handlers={},
        attributes={"m": None},
    )
    for m in map(nest, values):
        seen.clear()
        op(1.0, m=m)
        assert {repr(s) for s in seen} == {repr(m)}
        seen.clear()
        op(1.0, m=m)
        assert not seen  # it is found again


def test_nones_in_a_tuple_are_told_apart_by_their_places():
    op = FfiOp(
        "test.nones",
        lambda x, *, m: x * sum(i for i, v in enumerate(m, 1) if v is None),
        kernel_axes=0,
        handlers={},
        attributes={"m": None},
    )
    every = [(None, 1), (1, None), (None, None), (None,), (1, 1, (None,))]
    for m in (*every, *every):
        want = sum(i for i, v in enumerate(m, 1) if v is None)
        f = lambda x, m=m: op(x, m=m)  # noqa: E731
        assert f(1.0) == jax.jit(f)(1.0) == jax.grad(f)(1.0) == want
        np.testing.assert_array_equal(jax.vmap(f)(rows(3)), rows(3) * want)


@pytest.mark.parametrize("value", [0, 1, 0.5])
def test_attributes_that_were_seen_are_not_checked_again(value):
    op = FfiOp(
        "test.seen",
        lambda x, *, s: x + s,
        kernel_axes=0,
        handlers={},
        attributes={"s": np.float32},
    )
    assert op(rows(()), s=value) == value
    broken = mock.patch.object(
        attribute_values, "_convert", side_effect=ValueError
    )
    with broken as convert:
        assert op(rows(()), s=value) == value
    convert.assert_not_called()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            {"integer": 1.5},
            TypeError,
            "attribute integer: expected an int32 scalar, got 1.5 (float)",
        ),
        (
            {"integer": 2**31},
            ValueError,
            "attribute integer: expected int32, -2147483648 to 2147483647, got "
            "2147483648",
        ),
        (
            {"integer": True},
            TypeError,
            "attribute integer: expected an int32 scalar, got True (bool)",
        ),
        (
            {"flag": 1},
            TypeError,
            "attribute flag: expected a bool scalar, got 1 (int)",
        ),
        (
            {"text": b"x"},
            TypeError,
            "attribute text: expected a string, got b'x' (bytes)",
        ),
        (
            {"list": 3},
            TypeError,
            "attribute list: expected a sequence of int64, got 3 (int)",
        ),
        (
            {"list": [1, "2"]},
            TypeError,
            "attribute list[1]: expected an int64 scalar, got '2' (str)",
        ),
        (
            {"options": {}},
            TypeError,
            "attribute options: expected a mapping of scale, got {} (dict)",
        ),
        (
            {"options": {"scale": "1"}},
            TypeError,
            "attribute options.scale: expected a float64 scalar, got '1' (str)",
        ),
        (
            {"more": 1},
            TypeError,
            "attributes: expected flag, integer, list, options, text, got "
            "flag, integer, list, more, options, text; more is no attribute",
        ),
        (
            {"flags": 1},
            TypeError,
            "attributes: expected flag, integer, list, options, text, got "
            "flag, flags, integer, list, options, text; flags is no "
            "attribute; did you mean flag?",
        ),
    ],
)
def test_bad_attribute(wrong, error, message):
    with pytest.raises(error) as caught:
        describe(rows(5), **GOOD | wrong)
    assert str(caught.value) == f"test.describe: {message}"


F32 = "expected float32, -3.4028235e+38 to 3.4028235e+38, got "
F64 = "expected float64, -1.7976931348623157e+308 to 1.7976931348623157e+308, "


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        (np.float32, 1e300, f"s: {F32}1e+300"),
        (np.float32, np.float64(-3.5e38), f"s: {F32}-3.5e+38"),
        (np.float32, 10**400, f"s: {F32}1000"),
        (np.float64, -(10**400), f"s: {F64}got -1000"),
        ((np.float32,), [0.0, 1e39], f"s[1]: {F32}1e+39"),
        ({"a": "f32"}, {"a": 1e39}, f"s.a: {F32}1e+39"),
    ],
    ids=["python", "numpy", "integer", "f64", "array", "mapping"],
)
def test_a_finite_number_never_becomes_infinite(kind, value, said):
    op = spec(lambda x, *, s: x, attributes={"s": kind}, handlers={})
    with pytest.raises(ValueError) as caught:
        op(rows(1), s=value)
    assert str(caught.value).startswith(f"test.double: attribute {said}")


@pytest.mark.parametrize("value", [np.inf, -np.inf, 3.4028235e38, 1e-60, 2])
def test_the_numbers_that_an_attribute_has(value):
    op = spec(lambda x, *, s: x + s, attributes={"s": np.float32}, handlers={})
    assert op(rows(1), s=value) == np.float32(value)
    assert np.isnan(op(rows(1), s=np.nan))


def test_traced_attribute():
    with pytest.raises(TypeError) as caught:
        jax.jit(lambda i: describe(rows(5), **GOOD | {"integer": i}))(3)
    assert str(caught.value) == (
        "test.describe: attribute integer: expected a static value, got a "
        "traced one; pass it as a Python number (jit: static_argnames)"
    )
    np.testing.assert_array_equal(describe(rows(5), **GOOD)[0], 3)


def test_disable_jit():
    with jax.disable_jit():
        np.testing.assert_array_equal(double(rows(3)), 2 * rows(3))
        np.testing.assert_array_equal(
            jax.vmap(double)(rows((2, 3))), 2 * rows((2, 3))
        )


# --- vmap methods -------------------------------------------------------------

add_rows = FfiOp(
    "test.add_rows",
    lambda x, y: x + y,
    kernel_axes=1,
    libraries=[LIBRARY],
    advanced=xla_ffi_kit.Advanced(vmap_method="expand_dims"),
    linear=("x", "y"),
)
sum_one = FfiOp(
    "test.sum_one",
    lambda x: jnp.sum(x, -1),
    kernel_axes=1,
    libraries=[LIBRARY],
    advanced=xla_ffi_kit.Advanced(vmap_method="sequential"),
)


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 1), (1, 0)])
def test_expand_dims_does_not_repeat_operands(in_axes):
    x = rows((4, 4), 1) if in_axes[0] is not None else rows(4)
    y = rows((4, 4), 9) if in_axes[1] is not None else rows(4)
    f = jax.vmap(add_rows, in_axes)
    with xla_ffi_kit.use_reference():
        want = f(x, y)
    np.testing.assert_array_equal(f(x, y), want)
    assert count(f, x, y, what="test.add_rows") == 1
    assert "f32[4,4] = broadcast" not in str(jax.make_jaxpr(f)(x, y))
    grad = jax.grad(lambda x, y: jnp.sum(f(x, y) ** 2), (0, 1))
    with xla_ffi_kit.use_reference():
        want = grad(x, y)
    for a, b in zip(grad(x, y), want, strict=True):
        np.testing.assert_allclose(a, b)


def test_sequential_calls_once_per_element():
    x = rows((2, 3, 4))
    f = jax.vmap(jax.vmap(sum_one))
    np.testing.assert_array_equal(f(x), np.sum(x, -1))
    assert "scan" in str(jax.make_jaxpr(f)(x))
    np.testing.assert_array_equal(jax.grad(lambda x: f(x).sum())(x), x * 0 + 1)


@pytest.mark.parametrize("method", ["broadcast_all", "sequential"])
def test_a_reference_may_sum_over_an_axis_that_vmap_names(method):
    # No kernel can: it sees rows, and not which of them belong together.
    def reference(x, y):
        return x / jax.lax.psum(x, "i") + y * jax.lax.axis_index("i")

    op = FfiOp(
        "test.normalize",
        reference,
        kernel_axes=0,
        handlers={"cpu": "test.no_such_handler"},
        advanced=xla_ffi_kit.Advanced(vmap_method=method),
    )

    def rows_of(f, axes=(0, None)):
        return jax.vmap(f, axes, axis_name="i", axis_size=3)

    x, y = rows(3, 1), rows(())
    for transform in (
        rows_of,
        lambda f: jax.jit(rows_of(f)),
        lambda f: rows_of(jax.jit(f)),
        lambda f: lambda x, y: rows_of(f, (None, None))(x[0], y),
        lambda f: jax.grad(lambda x, y: jnp.sum(rows_of(f)(x, y) ** 2)),
        lambda f: rows_of(jax.grad(f)),
        lambda f: lambda x, y: jax.vmap(rows_of(f))(x[None], y[None]),
    ):
        got, want = transform(op)(x, y), transform(reference)(x, y)
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_sequential_refuses_batch_axes():
    with pytest.raises(ValueError) as caught:
        sum_one(rows((2, 3)))
    assert str(caught.value) == (
        "test.sum_one: operand x: expected rank 1 (vmap it over more), got "
        "rank 2"
    )


@pytest.mark.parametrize("implementation", [None, "reference"])
def test_operands_that_the_reference_refuses(implementation):
    with pytest.raises(TypeError) as caught:
        add_rows(rows(2), rows(3), implementation=implementation)
    assert str(caught.value).startswith(
        "test.add_rows: the reference does not take operands x float32[2], y "
        "float32[3]: "
    )
