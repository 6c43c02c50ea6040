"""What a wrong spec of an operation, or a wrong call, says."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import handled, rows, said, same, twice

from xla_ffi_kit import Advanced, FfiOp
from xla_ffi_kit.primitive.spec import Options

# --- With a reference ---------------------------------------------------------


def spec(reference=twice, **options):
    return handled("test.double", reference, **options)


BAD_SPECS = {
    "ValueError: vmap_method: expected one of ('broadcast_all', 'expand_dims', "
    "'sequential'), got 'loop'": {"advanced": Advanced(vmap_method="loop")},
    "ValueError: linear: expected a name of the operands x, got 'y'": {
        "linear": ("x", "y")
    },
    "TypeError: argument: expected aliases, got 'input_output_aliases'": {
        "input_output_aliases": {"x": 0}
    },
    "TypeError: argument: expected advanced=xla_ffi_kit.Advanced("
    "vmap_method=...), got 'vmap_method'": {"vmap_method": "sequential"},
    "TypeError: attributes: expected those of the reference's signature, none, "
    "got ['eps']": {"attributes": {"eps": np.float32}},
    "TypeError: attribute eps: expected a NumPy scalar type, str, a one-tuple "
    "of a scalar type or a mapping, got 'no type'": {
        "reference": lambda x, *, eps: x,
        "attributes": {"eps": "no type"},
    },
}


@pytest.mark.parametrize("message", BAD_SPECS)
def test_bad_spec(message):
    assert said(spec, **BAD_SPECS[message], of="test.double") == message


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


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        (
            (rows(2, 3), rows(1, 3)),
            "ValueError: operand y: expected batch dimensions [2] as operand x "
            "has, got [1]",
        ),
        ((rows(3),), "TypeError: operands: expected 2 (x, y), got 1"),
        ((rows(3),) * 3, "TypeError: operands: expected 2 (x, y), got 3"),
        (
            ("text", rows(3)),
            "TypeError: operand x: expected an array, got 'text' (str)",
        ),
    ],
)
def test_operands_that_do_not_fit(operands, message):
    op = handled("test.add", lambda x, y: x + y)
    assert said(op, *operands, of="test.add") == message


def test_target_registered_by_other_means():
    name = "test.unregistered"
    op = FfiOp(name, lambda x: x, kernel_axes=1, handlers={"cpu": name})
    assert name in said(op, rows(3))


@pytest.mark.parametrize(
    "kind", ["bf16", np.float16, "c64", jnp.int4, ("bf16",), ("pred",)]
)
def test_types_that_xla_gives_no_handler(kind):
    known = "one of pred, s8, s16, s32, s64, u8, u16, u32, u64, f32, f64"
    if isinstance(kind, tuple):
        known = "an array of " + known.replace("pred, ", "")
    for types, name in (({"s": kind}, "s"), ({"s": {"a": kind}}, "s.a")):
        got = said(spec, lambda x, *, s: x, attributes=types, of="test.double")
        assert got.startswith(
            f"TypeError: attribute {name}: expected {known}, which XLA gives "
            "handlers, got "
        )


def test_every_option_is_explained():
    own = ("name", "reference", "results", "kernel_axes", "dtypes")
    every = (*own, *Options.__annotations__)
    assert len(every) <= 17
    for name in every:
        assert re.search(rf"(?m)^ +{name}: ", FfiOp.__doc__), name
    for field in dataclasses.fields(Advanced):
        assert re.search(rf"(?m)^ +{field.name}: ", Advanced.__doc__), field


# --- Without one --------------------------------------------------------------

# Where something else is given: the beginning of the error.
BAD_ARGUMENTS = {
    "reference, results: expected one of them, a function, got neither": {
        "results": None
    },
    "reference, results: expected one of them, a function, got both": {
        "reference": twice
    },
    "vjp: expected a pair of functions, (fwd, bwd), got <function twice": {
        "vjp": twice
    },
    "jvp, vjp: expected one of them, got both": {
        "vjp": (twice, twice),
        "jvp": twice,
    },
    "handlers: expected at least one, as there is no reference to run, got "
    "none": {"handlers": {}},
    "aliases: expected a name of the operands x, got 0": {"aliases": {0: 0}},
    "aliases: expected the index of a result, as no signature tells: no "
    "library with its handler is given, got 'y'": {"aliases": {"x": "y"}},
    "advanced: expected xla_ffi_kit.Advanced(...), got {'part_of': 'f'}": {
        "advanced": {"part_of": "f"}
    },
    "aliases: expected a mapping, got [1]": {"aliases": [1]},
    "handlers: cpu: expected a custom call target or a function, got 3": {
        "handlers": {"cpu": 3}
    },
    "kernel_axes: expected a number >= 0 for all operands (axes='(),(n)->(n)' "
    "tells them apart), got True": {"kernel_axes": True},
    "linear: expected operands that the results are linear in, for transpose, "
    "got none": {"transpose": twice},
    "bilinear: expected two operands, each one array, such as ('a', 'x'), got "
    "x": {"bilinear": "x"},
    "linear, bilinear: expected one of them, got both": {
        "linear": "x",
        "bilinear": ("x", "x"),
    },
    "linear: expected one operand beside jvp=, got x, y: the derivative": {
        "results": lambda x, y: x,
        "jvp": twice,
        "linear": ("x", "y"),
    },
    "linear: expected one operand beside vjp=, got xs: the derivative": {
        "results": lambda *xs: xs[0],
        "vjp": (twice, twice),
        "linear": "xs",
    },
    "jvp: expected none, as results are linear in every operand": {
        "jvp": twice,
        "linear": "x",
    },
    "results: expected a function, got 3": {"results": 3},
    "handlers: expected a mapping, got 3": {"handlers": 3},
    "libraries: expected handler libraries or their paths, got 3": {
        "libraries": 3
    },
    "jvp: expected a function, got 3": {"jvp": 3},
    "transpose: expected a function, got 3": {"transpose": 3, "linear": "x"},
    "vjp: expected a pair of functions, (fwd, bwd), got 3": {"vjp": 3},
}
# The same of an option of Advanced.
BAD_ADVANCED = {
    "input_layouts: expected an order of 1 kernel axes for x, got (0, 2)": {
        "input_layouts": {"x": (0, 2)}
    },
    "check: expected a function, got 3": {"check": 3},
    "partitioned: expected a function, got 3": {"partitioned": 3},
    "workspace: expected a mapping, got 3": {"workspace": 3},
    "part_of: expected the name of a function, or several names, got 3": {
        "part_of": 3
    },
}


@pytest.mark.parametrize("message", [*BAD_ARGUMENTS, *BAD_ADVANCED])
def test_bad_arguments(message):
    given = {"results": same, "kernel_axes": 1}
    if message in BAD_ADVANCED:
        given["advanced"] = Advanced(**BAD_ADVANCED[message])
    else:
        given |= BAD_ARGUMENTS[message]
    error, _, text = said(FfiOp, "test.double", **given).partition(": ")
    assert error in ("TypeError", "ValueError")
    assert text.startswith(f"test.double: {message}")


BAD_CALLS = {
    "results: expected a jax.ShapeDtypeStruct, or a tuple of them, got 3": {
        "results": lambda x: 3
    },
    "the shape function does not take operands x float32[3]: ": {
        "results": lambda x: x.shape[1]
    },
    "results: result 0: expected sizes >= 0, got shape [2, -1]": {
        "results": lambda x: jax.ShapeDtypeStruct((2, -1), x.dtype)
    },
    "axes: expected the axes of 1 results or fewer, got 2": {
        "kernel_axes": None,
        "axes": "(n)->(n),(n)",
    },
    "aliases: expected results below 1, got 1": {"aliases": {"x": 1}},
    "output_layouts: expected an order of 1 kernel axes for result 0, got (1, "
    "0)": {"advanced": Advanced(output_layouts={0: (1, 0)})},
}


@pytest.mark.parametrize("message", BAD_CALLS)
def test_bad_calls(message):
    given = {"results": same} | BAD_CALLS[message]
    op = spec(None, **given)
    assert message in said(jax.jit(op).trace, np.ones(3, np.float32))
