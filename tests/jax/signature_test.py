"""What handlers say of themselves, and operations that do not fit them."""

import ctypes
import pathlib

import numpy as np
import pytest

import xla_ffi_kit
from xla_ffi_kit import doctor
from xla_ffi_kit.library import c_api, handler_library

LIBRARY = xla_ffi_kit.HandlerLibrary(
    pathlib.Path(__file__).parent / "test_handlers.so"
)
ATTRIBUTES = {
    "axis": np.int64,
    "count": np.int64,
    "eps": np.float64,
    "mode": str,
    "strides": (np.int64,),
}
SOURCE = "the handler test.signed of test_handlers.so takes"


def test_a_handler_is_one_line_to_call_it_by():
    assert str(LIBRARY.signature("test.signed")) == (
        "test.signed(x: f32|f64[rank >= 1], weight: like x[rank 1], *, "
        "axis: s64 (axis of x), count: s64 (0 to 9), eps: f64, "
        "mode: string (fast|exact), strides: array of s64 (2 of 1 to 2^30)) "
        "-> y: like x, rows: s32[like x, last axis count]"
    )


def test_the_doctor_prints_it(capsys):
    doctor.main([LIBRARY.path])
    printed = capsys.readouterr().out
    assert f"  {LIBRARY.signature('test.signed')}\n" in printed
    assert "  test.add_rows: no signature\n" in printed


def test_a_plain_handler_and_an_older_library_have_none():
    assert LIBRARY.signature("test.add_rows") is None
    row = c_api.HandlerEntry(b"old", b"Host", *4 * [None], signature=1)
    table = c_api.HandlerTable(
        num_handlers=1,
        handlers=ctypes.addressof(row),
        handler_size=c_api.HandlerEntry.signature.offset,
    )
    (old,) = handler_library.handlers_in(table)
    assert old.signature() is None


def define(reference=None, attributes=None, dtypes=None):
    def takes_all(x, weight, *, axis, count, eps, mode, strides):
        return x, x[..., 0]

    xla_ffi_kit.FfiOp(
        "test.signed",
        reference or takes_all,
        kernel_axes=1,
        libraries=LIBRARY,
        attributes=ATTRIBUTES if attributes is None else attributes,
        dtypes=dtypes,
    )


def test_an_operation_that_fits_is_defined():
    define(dtypes=("f32", "f64"))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (
            {"reference": lambda x, *, axis, count, eps, mode, strides: x},
            "reference: expected 2 operands, (x, weight), as "
            f"{SOURCE} them, got 1: (x)",
        ),
        (
            {
                "reference": lambda x, weight, *, axis: x,
                "attributes": {"axis": np.int64},
            },
            "attributes: expected {axis, count, eps, mode, strides}, as "
            f"{SOURCE} them, got {{axis}}",
        ),
        (
            {"attributes": ATTRIBUTES | {"eps": np.float32}},
            f"attribute eps: expected the type f64, as {SOURCE} it, got f32",
        ),
        (
            {"attributes": ATTRIBUTES | {"strides": np.int64}},
            "attribute strides: expected the type array of s64, as "
            f"{SOURCE} it, got s64",
        ),
        (
            {"attributes": ATTRIBUTES | {"mode": np.int64}},
            f"attribute mode: expected the type string, as {SOURCE} it, got "
            "s64",
        ),
        (
            {"dtypes": ("f32", "bf16")},
            "dtypes: expected one of f32, f64 for operand x, as "
            f"{SOURCE} it, got bf16",
        ),
    ],
)
def test_an_operation_that_does_not_fit_is_an_error_where_it_is_defined(
    wrong, text
):
    with pytest.raises(ValueError) as caught:
        define(**wrong)
    assert str(caught.value) == f"test.signed: {text}"
