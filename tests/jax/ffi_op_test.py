"""FfiOp's spec: axes, attributes, vmap methods. mistakes_test has mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import count, handled, operation, rows, twice

import xla_ffi_kit
from xla_ffi_kit import FfiOp
from xla_ffi_kit.testing import Case, check_op

# --- Axes by name, in the notation of jnp.vectorize ---------------------------


def of_axes(text, reference):
    return FfiOp("test.axes", reference, axes=text, handlers={})


@pytest.mark.parametrize("text", ["(m,n),(n)->(m)", " ( m , n ),( n )  -> (m)"])
def test_each_operand_has_its_own_number_of_axes(text):
    op = of_axes(text, lambda a, x: jnp.einsum("...mn,...n->...m", a, x))
    a, x = rows(3, 4), rows(4)
    np.testing.assert_array_equal(op(a, x), a @ x)
    for f in (op, jax.jit(op)):
        got = jax.vmap(f, (None, 0))(a, rows(2, 4))
        np.testing.assert_allclose(got, rows(2, 4) @ a.T)
    assert op.spec.kernel_axes == (2, 1)


def test_no_operands():
    assert of_axes("->(n)", lambda: jnp.ones(3))().shape == (3,)


def test_symbolic_sizes_are_left_to_the_reference():
    (n,) = jax.export.symbolic_shape("n")
    x = jax.ShapeDtypeStruct((n,), jnp.float32)
    assert jax.eval_shape(of_axes("(n)->(n)", lambda x: x), x).shape == (n,)


# --- Attributes ---------------------------------------------------------------


def describe_reference(x, *, integer, text, list, options, flag):
    values = (integer, len(text), sum(list), options["scale"], flag)
    return x * 0 + jnp.array(values, x.dtype)


describe = handled(
    "test.describe",
    describe_reference,
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


def with_attribute(kind, reference=lambda x, *, s: x):
    """An operation with an attribute s of a type."""
    return operation(reference, attributes={"s": kind})


def test_every_kind_of_attribute():
    x = rows(5)
    want = [3, 4, 6, 0.5, 1]
    jitted = jax.jit(lambda x: describe(x, **GOOD))
    reference = describe(x, implementation="reference", **GOOD)
    numpy = GOOD | {"integer": np.int64(3), "list": np.array([1, 2, 3])}
    for got in (jitted(x), reference, describe(x, **numpy)):
        np.testing.assert_array_equal(got, want)


def test_the_handler_gets_every_bit():
    for scale in (-0.0, 0.0, float("nan")):
        got = describe(rows(5), **GOOD | {"options": {"scale": scale}})[3]
        np.testing.assert_array_equal(got, scale)
        assert np.signbit(got) == np.signbit(scale)


NAN = float("nan")
# A type -> values that Python finds equal, or prints alike.
ALIKE = [
    (np.float32, [0.0, -0.0, NAN, -NAN]),
    ((np.float64,), [[0.0], [-0.0], [NAN], [-NAN]]),
]
for values in ((1, True, 1.0), (0.0, -0.0, False)):
    ALIKE.append((None, values))
    ALIKE.append((None, [(None, (v,)) for v in values]))


@pytest.mark.parametrize(("kind", "values"), ALIKE)
def test_equal_values_are_told_apart(kind, values):
    def exactly(s):
        return np.asarray(s, np.float64).tobytes() if kind else repr(s)

    seen = []
    op = with_attribute(kind, lambda x, *, s: (seen.append(exactly(s)), x)[1])
    for s in values:
        op(1.0, s=s)
        assert {*seen} == {exactly(s)}
        seen.clear()
        op(1.0, s=s)
        assert not seen  # it is found again


def test_nones_in_a_tuple_are_told_apart_by_their_places():
    def places(s):
        return sum(i for i, v in enumerate(s, 1) if v is None)

    op = with_attribute(None, lambda x, *, s: x * places(s))
    tuples = [(None, 1), (1, None), (None, None), (None,), (1, 1, (None,))]
    for s in (*tuples, *tuples):
        f = lambda x, s=s: op(x, s=s)  # noqa: E731
        assert f(1.0) == jax.jit(f)(1.0) == jax.grad(f)(1.0) == places(s)
        np.testing.assert_array_equal(jax.vmap(f)(rows(3)), rows(3) * places(s))


def test_the_numbers_that_an_attribute_has():
    op = with_attribute(np.float32, lambda x, *, s: x + s)
    for value in (np.inf, -np.inf, 3.4028235e38, 1e-60, 2, np.nan):
        np.testing.assert_array_equal(op(0.0, s=value), np.float32(value))


def test_disable_jit():
    double, x = handled("test.double", twice), rows(2, 3)
    with jax.disable_jit():
        for f in (double, jax.vmap(double)):
            np.testing.assert_array_equal(f(x), 2 * x)


# --- Attributes that decide the types of results, and that no handler gets ---

X = rows(2, 6)


def reference(x, *, shape=(6,)):
    return 2 * x.reshape(*x.shape[:-1], *shape)


reshaped = handled("test.double", reference, attributes={"shape": None})


def test_only_the_types_of_results_follow_from_it():
    check_op(reshaped, [Case("float32[2,6]", shape=(3, 2))])
    assert reshaped(X).shape == (2, 6)
    text = jax.jit(lambda x: reshaped(x, shape=(2, 3))).lower(X).as_text()
    assert "@test.double" in text and "shape" not in text


def test_a_shape_function_and_attributes_of_its_name():
    def result(x, *, last):
        return jax.ShapeDtypeStruct((x.shape[0] // last, last), x.dtype)

    op = handled("test.double", results=result, attributes={"last": None})
    np.testing.assert_array_equal(
        jax.vmap(lambda x: op(x, last=3))(X), reference(X, shape=(2, 3))
    )


def of_signed(reference, **options):
    axes = "(n),(m)->(n),(k)"
    return handled("test.signed", reference, axes=axes, **options)


def test_two_stars_take_what_the_signature_has():
    def takes_all(x, weight, *, k, **attributes):
        return x, x[..., : attributes["count"]]

    op = of_signed(takes_all, attributes={"k": None})
    attributes = {"axis": 0, "count": 2, "eps": 0.5, "mode": "fast"}
    y, counted = jax.eval_shape(
        lambda x: op(x, x, k=1, strides=(1, 2), **attributes), X
    )
    assert (y.shape, counted.shape) == ((2, 6), (2, 2))
    with pytest.raises(TypeError, match="expected axis, count, eps, k, mode"):
        op(X, X, k=1)


# --- vmap methods -------------------------------------------------------------

add_rows = handled(
    "test.add_rows",
    lambda x, y: x + y,
    advanced=xla_ffi_kit.Advanced(vmap_method="expand_dims"),
    linear=("x", "y"),
)


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 1), (1, 0)])
def test_expand_dims_does_not_repeat_operands(in_axes):
    x = rows(4, 4, start=1) if in_axes[0] is not None else rows(4)
    y = rows(4, 4, start=9) if in_axes[1] is not None else rows(4)
    f = jax.vmap(add_rows, in_axes)
    with xla_ffi_kit.use_reference():
        want = f(x, y)
    np.testing.assert_array_equal(f(x, y), want)
    assert count(f, x, y, what="test.add_rows") == 1
    assert "f32[4,4] = broadcast" not in str(jax.make_jaxpr(f)(x, y))


@pytest.mark.parametrize("method", ["expand_dims", "sequential"])
def test_a_result_in_the_place_of_what_is_not_mapped(method):
    def add(x, y):
        return x + y

    op = operation(
        add,
        kernel_axes=1,
        aliases={"x": 0},
        advanced=xla_ffi_kit.Advanced(vmap_method=method),
    )
    x, y = rows(3), rows(4, 3)
    for axes in ((None, 0), (0, None), (0, 0)):
        args = [x if axis is None else y for axis in axes]
        got = jax.vmap(op, axes)(*args)
        np.testing.assert_array_equal(got, jax.vmap(add, axes)(*args))


def test_sequential_refuses_batch_axes():
    op = handled(
        "test.sum_one",
        lambda x: jnp.sum(x, -1),
        advanced=xla_ffi_kit.Advanced(vmap_method="sequential"),
    )
    assert count(jax.vmap(op), rows(2, 3), what="test.sum_one") == 1
    assert "while" in jax.jit(jax.vmap(op)).lower(rows(2, 3)).as_text()


@pytest.mark.parametrize("method", ["broadcast_all", "sequential"])
def test_a_reference_may_sum_over_an_axis_that_vmap_names(method):
    # No kernel can: it sees rows, and not which of them belong together.
    def reference(x, y):
        return x / jax.lax.psum(x, "i") + y * jax.lax.axis_index("i")

    op = operation(
        reference,
        handlers={"cpu": "test.no_such_handler"},
        advanced=xla_ffi_kit.Advanced(vmap_method=method),
    )

    def rows_of(f, axes=(0, None)):
        return jax.vmap(f, axes, axis_name="i", axis_size=3)

    x, y = rows(3, start=1), rows()
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


class OtherError(ValueError):
    """Its constructor is of its own."""

    def __init__(self, number, text):
        super().__init__(f"{number} {text}")


def test_an_error_keeps_its_class_and_says_which_operation():
    def refuse(x):
        raise OtherError(1, "of mine")

    branch = operation(lambda x: x if x > 0 else 0 * x)
    mine = operation(refuse)
    by_shape = operation(None, results=refuse, handlers={"cpu": "no"})
    for op, kind, text in (
        (branch, jax.errors.TracerBoolConversionError, "Attempted boolean"),
        (mine, OtherError, "1 of mine"),
        (by_shape, OtherError, "1 of mine"),
    ):
        for call in (op, jax.jit(op)):
            with pytest.raises(kind, match=text) as caught:
                call(jnp.float32(1))
            (note,) = [n for n in caught.value.__notes__ if "test.op" in n]
            assert note.endswith(" does not take operands x float32[]")
