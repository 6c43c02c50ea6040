"""What a wrong spec of an operation, or a wrong call, says."""

import dataclasses
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.primitive.spec import Options

LIBRARY = xla_ffi_kit.HandlerLibrary(
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "test_handlers.so")
)


def rows(shape):
    return jnp.arange(np.prod(shape), dtype=np.float32).reshape(shape)


# --- With a reference ---------------------------------------------------------


def twice(x):
    return 2 * x


def spec(reference=twice, **kwargs):
    given = {"kernel_axes": 1, "libraries": [LIBRARY]}
    return FfiOp("test.double", reference, **(given | kwargs))


double = spec()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (
            {"advanced": Advanced(vmap_method="loop")},
            ValueError,
            "vmap_method: expected one of ('broadcast_all', 'expand_dims', "
            "'sequential'), got 'loop'",
        ),
        (
            {"linear": ("x", "y")},
            ValueError,
            "linear: expected a name of the operands x, got 'y'",
        ),
        (
            {"input_output_aliases": {"x": 0}},
            TypeError,
            "argument: expected aliases, got 'input_output_aliases'",
        ),
        (
            {"vmap_method": "sequential"},
            TypeError,
            "argument: expected "
            "advanced=xla_ffi_kit.Advanced(vmap_method=...), got 'vmap_method'",
        ),
        (
            {"attributes": {"eps": np.float32}},
            TypeError,
            "attributes: expected those of the reference's signature, none, "
            "got ['eps']",
        ),
        (
            {
                "reference": lambda x, *, eps: x,
                "attributes": {"eps": "no type"},
            },
            TypeError,
            "attribute eps: expected a NumPy scalar type, str, a one-tuple of "
            "a scalar type or a mapping, got 'no type'",
        ),
    ],
)
def test_bad_spec(wrong, error, message):
    with pytest.raises(error) as caught:
        spec(**wrong)
    assert str(caught.value) == f"test.double: {message}"


def test_reserved_attribute():
    with pytest.raises(TypeError, match="attribute implementation: expected"):
        spec(
            reference=lambda x, *, implementation: x,
            attributes={"implementation": str},
        )


def test_derivative_rule_may_return_a_tuple_for_one_result():
    op = spec(jvp=lambda p, t: ((2 * p[0],), (2 * t[0],)))
    x = rows(3)
    y, tangent = jax.jvp(op, (x,), (x,))
    np.testing.assert_array_equal(y, tangent)
    np.testing.assert_array_equal(op(x), y)


def test_leading_axes_that_differ():
    op = FfiOp(
        "test.add", lambda x, y: x + y, kernel_axes=1, libraries=[LIBRARY]
    )
    with pytest.raises(ValueError) as caught:
        op(rows((2, 3)), rows((1, 3)))
    assert str(caught.value) == (
        "test.add: operand y: expected batch dimensions [2] as operand x has, "
        "got [1]"
    )


def test_wrong_number_of_operands():
    with pytest.raises(TypeError) as caught:
        double(rows(3), rows(3))
    assert str(caught.value) == "test.double: operands: expected 1 (x), got 2"


def test_operand_that_is_no_array():
    with pytest.raises(TypeError) as caught:
        double("text")
    assert str(caught.value) == (
        "test.double: operand x: expected an array, got 'text' (str)"
    )


def test_target_registered_by_other_means():
    op = FfiOp(
        "test.unregistered",
        lambda x: x,
        kernel_axes=1,
        handlers={"cpu": "test.unregistered"},
    )
    with pytest.raises(Exception, match="test.unregistered"):
        op(rows(3))


@pytest.mark.parametrize(
    "kind", ["bf16", np.float16, "c64", jnp.int4, ("bf16",), ("pred",)]
)
def test_types_that_xla_gives_no_handler(kind):
    known = "one of pred, s8, s16, s32, s64, u8, u16, u32, u64, f32, f64"
    if isinstance(kind, tuple):
        known = "an array of " + known.replace("pred, ", "")
    for types, name in (({"s": kind}, "s"), ({"s": {"a": kind}}, "s.a")):
        with pytest.raises(TypeError) as caught:
            spec(lambda x, *, s: x, attributes=types)
        said = f"{name}: expected {known}, which XLA gives handlers, got "
        assert str(caught.value).startswith(f"test.double: attribute {said}")


def test_every_option_is_explained():
    own = ("name", "reference", "results", "kernel_axes", "dtypes")
    every = (*own, *Options.__annotations__)
    assert len(every) <= 16
    for name in every:
        assert re.search(rf"(?m)^ +{name}: ", FfiOp.__doc__), name
    for field in dataclasses.fields(Advanced):
        assert re.search(rf"(?m)^ +{field.name}: ", Advanced.__doc__), field


# --- Without one --------------------------------------------------------------


def same(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"results": None},
            "reference, results: expected one of them, a function, got neither",
        ),
        (
            {"reference": twice},
            "reference, results: expected one of them, a function, got both",
        ),
        (
            {"vjp": twice},
            "vjp: expected a pair of functions, (fwd, bwd), got <function "
            "twice",
        ),
        (
            {"vjp": (twice, twice), "jvp": twice},
            "jvp, vjp: expected one of them, got both",
        ),
        (
            {"handlers": {}},
            "handlers: expected at least one, as there is no reference to "
            "run, got none",
        ),
        (
            {"aliases": {0: 0}},
            "aliases: expected a name of the operands x, got 0",
        ),
        (
            {"aliases": {"x": "y"}},
            "aliases: expected the index of a result, as no signature tells: "
            "no library with its handler is given, got 'y'",
        ),
        (
            {"advanced": Advanced(input_layouts={"x": (0, 2)})},
            "input_layouts: expected an order of 1 kernel axes for x, got (0, "
            "2)",
        ),
        (
            {"advanced": {"part_of": "f"}},
            "advanced: expected xla_ffi_kit.Advanced(...), got {'part_of': "
            "'f'}",
        ),
        ({"aliases": [1]}, "aliases: expected a mapping, got [1]"),
        (
            {"handlers": {"cpu": 3}},
            "handlers: cpu: expected a custom call target or a function, got 3",
        ),
        (
            {"kernel_axes": True},
            "kernel_axes: expected a number >= 0 for all operands "
            "(axes='(),(n)->(n)' tells them apart), got True",
        ),
        (
            {"transpose": twice},
            "linear: expected operands that the results are linear in, for "
            "transpose, got none",
        ),
    ],
)
def test_bad_arguments(wrong, message):
    given = {"results": same, "kernel_axes": 1} | wrong
    with pytest.raises((TypeError, ValueError)) as caught:
        FfiOp("test.double", **given)
    assert str(caught.value).startswith(f"test.double: {message}")


# Where 3 is given instead.
KINDS = {
    "results": "a function",
    "handlers": "a mapping",
    "libraries": "handler libraries or their paths",
    "jvp": "a function",
    "transpose": "a function",
    "vjp": "a pair of functions, (fwd, bwd)",
}
ADVANCED_KINDS = {
    "check": "a function",
    "partitioned": "a function",
    "workspace": "a mapping",
    "part_of": "the name of a function, or several names",
}


@pytest.mark.parametrize("name", [*KINDS, *ADVANCED_KINDS])
def test_what_is_of_another_kind(name):
    given = {"results": same, "kernel_axes": 1, "linear": "x"}
    if name in KINDS:
        given[name] = 3
    else:
        given["advanced"] = Advanced(**{name: 3})
    with pytest.raises((TypeError, ValueError)) as caught:
        FfiOp("test.double", **given)
    wanted = (KINDS | ADVANCED_KINDS)[name]
    assert str(caught.value) == f"test.double: {name}: expected {wanted}, got 3"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"results": lambda x: 3},
            "results: expected a jax.ShapeDtypeStruct, or a tuple of them, "
            "got 3",
        ),
        (
            {"results": lambda x: x.shape[1]},
            "the shape function does not take operands x float32[3]: ",
        ),
        (
            {"results": lambda x: jax.ShapeDtypeStruct((2, -1), x.dtype)},
            "results: result 0: expected sizes >= 0, got shape [2, -1]",
        ),
        (
            {"kernel_axes": None, "axes": "(n)->(n),(n)"},
            "axes: expected the axes of 1 results or fewer, got 2",
        ),
        (
            {"aliases": {"x": 1}},
            "aliases: expected results below 1, got 1",
        ),
        (
            {"advanced": Advanced(output_layouts={0: (1, 0)})},
            "output_layouts: expected an order of 1 kernel axes for result 0, "
            "got (1, 0)",
        ),
    ],
)
def test_bad_calls(options, message):
    given = {"results": same, "kernel_axes": 1, "libraries": LIBRARY}
    op = FfiOp("test.double", **(given | options))
    with pytest.raises((TypeError, ValueError, IndexError)) as caught:
        jax.jit(op).trace(np.ones(3, np.float32))
    assert message in str(caught.value)
