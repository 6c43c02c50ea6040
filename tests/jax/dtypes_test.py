"""Every place that takes dtypes reads them in one way, and refuses in words."""

import jax.numpy as jnp
import numpy as np
import pytest
from common import said

import xla_ffi_kit
from xla_ffi_kit import _dtypes
from xla_ffi_kit.op.operands import check_dtypes
from xla_ffi_kit.strings.text import element_types


def operation(**options):
    return xla_ffi_kit.FfiOp(
        "f", lambda x, y: x + y, **{"kernel_axes": 0, **options}
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [
        *(("i8", "int8"), ("s64", "int64"), ("u16", "uint16")),
        *(("f32", "float32"), ("c128", "complex128")),
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
