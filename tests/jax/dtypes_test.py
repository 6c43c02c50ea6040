"""Every place that takes dtypes reads them in one way, and refuses in words."""

import jax.numpy as jnp
import numpy as np
import pytest
from common import said

import xla_ffi_kit
from xla_ffi_kit import _dtypes
from xla_ffi_kit.primitive.operand_checks import check_dtypes
from xla_ffi_kit.strings import element_types
from xla_ffi_kit.testing import Case


def operation(**options):
    return xla_ffi_kit.FfiOp(
        "f", lambda x, y: x + y, **{"kernel_axes": 0, **options}
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *((f"i{bits}", f"int{bits}") for bits in (8, 16, 32, 64)),
        *((f"s{bits}", f"int{bits}") for bits in (8, 16, 32, 64)),
        *((f"u{bits}", f"uint{bits}") for bits in (8, 16, 32, 64)),
        *((f"f{bits}", f"float{bits}") for bits in (16, 32, 64)),
        *((f"c{bits}", f"complex{bits}") for bits in (64, 128)),
        ("bf16", "bfloat16"),
        ("pred", "bool"),
        ("bool", "bool"),
        ("float32", "float32"),
        ("float8_e5m2", "float8_e5m2"),
        ("int4", "int4"),
        (np.int8, "int8"),
        (np.dtype(np.complex64), "complex64"),
        (np.dtype("i8"), "int64"),
        (jnp.bfloat16, "bfloat16"),
        (bool, "bool"),
    ],
)
def test_names_and_types(given, name):
    assert _dtypes.parse("f: dtypes", given).name == name


NUMPYS = {
    "f8": "float64",
    "i4": "int32",
    "u2": "uint16",
    "c16": "complex128",
    "<f4": "float32",
    "d": "float64",
    "float": "float64",
}
NONE = ["f31", "object", "", None, 8, np.object_, np.longdouble, dict]


@pytest.mark.parametrize("given", [*NUMPYS, *NONE, [("a", "f4")]])
def test_what_is_no_dtype_or_two(given):
    hint = ""
    if isinstance(given, str) and given in NUMPYS:
        hint = f", which is {NUMPYS[given]} to NumPy"
    assert said(_dtypes.parse, "f: dtypes", given) == (
        "TypeError: f: dtypes: expected one of pred, s8, s16, s32, s64, u8, "
        "u16, u32, u64, f16, bf16, f32, f64, c64, c128, or a type, or NumPy's "
        f"name of one such as 'float32', got {given!r}{hint}"
    )


def test_operands_of_an_operation():
    op = operation(dtypes=["i8", "f32,s32", ("bf16", np.uint8)])
    for first, second in (
        (np.int8, np.int8),
        (np.float32, np.int32),
        (jnp.bfloat16, np.uint8),
    ):
        check_dtypes(op.spec, (np.empty(1, first), np.empty(1, second)))
    assert said(check_dtypes, op.spec, (np.empty(1, np.int64),) * 2) == (
        "TypeError: f: operand x: expected dtype int8, float32, bfloat16, got "
        "int64"
    )


def test_attributes_of_an_operation():
    op = xla_ffi_kit.FfiOp(
        "f",
        lambda x, *, n, m: x,
        kernel_axes=0,
        handlers={},
        attributes={"n": "i8", "m": ("u8",)},
    )
    with pytest.raises(ValueError, match="expected int8, -128 to 127, got 128"):
        op(1.0, n=128, m=[1])
    with pytest.raises(ValueError, match="expected uint8, 0 to 255, got 256"):
        op(1.0, n=1, m=[256])
    with pytest.raises(TypeError, match="got 'i4', which is int32 to NumPy"):
        xla_ffi_kit.FfiOp(
            "f", lambda x, *, n: x, kernel_axes=0, attributes={"n": "i4"}
        )


def test_cases_of_the_contract_test():
    (x,) = Case("i8[3]").operands()
    assert x.dtype == np.int8
    with pytest.raises(TypeError, match="Case: operand: expected one of pred"):
        Case("f4[3]").operands()


@pytest.mark.parametrize(
    ("dtypes", "message"),
    [
        ("f32", "TypeError: f: dtypes: expected a sequence, got 'f32'"),
        (np.float32, "TypeError: f: dtypes: expected a sequence, got <class"),
        ([], "ValueError: f: dtypes: expected at least one, got none"),
        (["f32,f32,f32"], "ValueError: f: dtypes: expected 2 in each entry"),
        ([["f32"]], "ValueError: f: dtypes: expected 2 in each entry, one per"),
    ],
)
def test_how_many_dtypes(dtypes, message):
    assert said(operation, dtypes=dtypes).startswith(message)


# --- Operations from strings --------------------------------------------------


@pytest.mark.parametrize(
    ("given", "types"),
    [
        ("i8 f32,s32", ["int8_t", "float, int32_t"]),
        (["i8", np.float32], ["int8_t", "float"]),
        ([("bf16", np.dtype("u8")), "f64"], ["kit::bf16, uint64_t", "double"]),
    ],
)
def test_template_arguments(given, types):
    assert element_types.template_arguments("f", given) == types


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "f8",
            "dtypes: expected one of pred, .*, got 'f8', which is float64 to",
        ),
        ("c64", "dtypes: expected one of pred, .*, f32, f64, got complex64"),
        (np.float32, "f: dtypes: expected a sequence, got <class"),
        ("", "f: dtypes: expected at least one, got none"),
        (["f32,"], "f: dtypes: expected one of pred, .*, got ''"),
    ],
)
def test_what_is_no_template_argument(given, message):
    with pytest.raises(xla_ffi_kit.errors.BuildError, match=message):
        element_types.template_arguments("f", given)


def test_attributes_in_cpp():
    for declared, cpp in (
        ("i8", "int8_t"),
        (("u8",), "kit::Array<uint8_t>"),
        (str, "std::string_view"),
    ):
        assert element_types.cpp_attribute("f: attribute a", declared) == cpp
    for declared in ("i4", np.complex64, {"a": "f32"}, ("f32", "f32")):
        with pytest.raises(
            xla_ffi_kit.errors.BuildError,
            match="f: attribute a: expected one of pred",
        ):
            element_types.cpp_attribute("f: attribute a", declared)
