"""What handlers say of themselves, who prints it, and what does not fit."""

import ctypes

import numpy as np
import pytest
from common import LIBRARY, handled, said

import xla_ffi_kit
from xla_ffi_kit import __main__, doctor
from xla_ffi_kit.library import c_api, describe, rows
from xla_ffi_kit.library import signature as reader

KIT = xla_ffi_kit.ops.LIBRARIES[0]
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
        "test.signed(x: f32|f64[..., n], weight: like x[m], *, "
        "axis: s64 (axis of x), count: s64 (0 to 9), eps: f64, "
        "mode: string (fast|exact), strides: array of s64 (2 of 1 to 2^30)) "
        "-> y: like x, rows: s32[..., count]"
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
    (old,) = rows.handlers_in(table)
    assert old.signature() is None


def takes_all(x, weight, *, axis, count, eps, mode, strides):
    return x, x[..., 0]


def define(reference=takes_all, **options):
    return handled("test.signed", reference, **options)


def test_an_operation_that_fits_is_defined():
    assert define(dtypes=("f32", "f64")).spec.attributes == ATTRIBUTES
    assert define(attributes=ATTRIBUTES).spec.attributes == ATTRIBUTES


MISFITS = {
    f"reference: expected 2 operands, (x, weight), as {SOURCE} them, got 1: "
    "(x)": {"reference": lambda x, *, axis, count, eps, mode, strides: x},
    "attributes: expected {axis, count, eps, mode, strides}, as "
    f"{SOURCE} them, got {{axis}}": {
        "reference": lambda x, weight, *, axis: x,
        "attributes": {"axis": np.int64},
    },
    f"attribute eps: expected the type f64, as {SOURCE} it, got f32": {
        "attributes": ATTRIBUTES | {"eps": np.float32}
    },
    "attribute strides: expected the type array of s64, as "
    f"{SOURCE} it, got s64": {"attributes": ATTRIBUTES | {"strides": np.int64}},
    f"attribute mode: expected the type string, as {SOURCE} it, got s64": {
        "attributes": ATTRIBUTES | {"mode": np.int64}
    },
    f"dtypes: expected one of f32, f64 for operand x, as {SOURCE} it, got "
    "bf16": {"dtypes": ("f32", "bf16")},
}


@pytest.mark.parametrize("message", MISFITS)
def test_an_operation_that_does_not_fit_is_an_error_where_it_is_defined(
    message,
):
    got = said(define, **MISFITS[message])
    assert got == f"ValueError: test.signed: {message}"


GIVEN = {"axis": 0, "count": 1, "eps": 0.5, "mode": "fast", "strides": (1, 2)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"count": -1}, "count: expected 0 to 9, got -1"),
        ({"count": 10}, "count: expected 0 to 9, got 10"),
        ({"mode": "slow"}, "mode: expected fast or exact, got slow"),
        ({"strides": (1, 0)}, "strides: expected 1 to 2^30, got 0"),
        ({"strides": (1,)}, "strides: expected 2 elements, got 1"),
    ],
)
def test_the_reference_does_not_see_an_attribute_that_is_out_of_bounds(
    wrong, message
):
    def picky(x, weight, *, axis, count, eps, mode, strides):
        rows = {"fast": 9 % (10 - count), "exact": 1}[mode] // strides[1]
        return x, x[..., : rows * 0 + count].astype(np.int32)

    op, x = define(picky), np.ones((2, 6), np.float32)
    for implementation in (None, "reference"):
        got = said(op, x, x, **GIVEN | wrong, implementation=implementation)
        assert got == f"ValueError: test.signed: attribute {message}"


@pytest.mark.parametrize("eps", [-0.5, float("nan"), float("inf")])
def test_a_float_that_is_out_of_bounds(eps):
    name = "xla_ffi_kit.rms_norm"
    op = xla_ffi_kit.FfiOp(name, lambda x, *, eps: x, libraries=KIT)
    assert said(op, np.ones(3, np.float32), eps=eps) == (
        f"ValueError: {name}: attribute eps: expected a finite value >= 0, got "
        f"{eps:g}"
    )


def test_what_an_older_librarys_structs_end_before_is_zero():
    of_kit = reader._Signature.from_address(
        KIT.handler("xla_ffi_kit.rms_norm").signature_at
    )
    weight = of_kit.arguments + of_kit.argument_size
    one = reader._Signature(
        operation=of_kit.operation,
        num_operands=1,
        arguments=weight,
        num_sizes=of_kit.num_sizes,
        sizes=of_kit.sizes,
    )
    one.argument_size = ctypes.sizeof(reader._Argument)
    assert reader.read(ctypes.addressof(one)).operands[0].is_optional
    one.argument_size = reader._Argument.is_optional.offset
    assert not reader.read(ctypes.addressof(one)).operands[0].is_optional


def define_rms_norm(operands, attributes, name="xla_ffi_kit.rms_norm"):
    keywords = "".join(f", {attribute}" for attribute in attributes)
    given = ", ".join(operands) + (f", *{keywords}" if attributes else "")
    xla_ffi_kit.FfiOp(
        name,
        eval(f"lambda {given}: x"),
        kernel_axes=1,
        libraries=KIT,
        attributes=attributes,
    )


@pytest.mark.parametrize("operands", ["x", "xw", "xwr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operands_may_be_missing_and_a_number_have_two_dtypes(operands, dtype):
    define_rms_norm(operands, {"eps": dtype})


def test_too_many_operands_and_an_attribute_of_neither_dtype():
    assert said(define_rms_norm, "xwrs", {"eps": np.float64}) == (
        "ValueError: xla_ffi_kit.rms_norm: reference: expected 1 to 3 "
        "operands, (x, weight?, residual?), as the handler "
        "xla_ffi_kit.rms_norm of xla_ffi_kit_cpu.so takes them, got 4: (x, w, "
        "r, s)"
    )
    with pytest.raises(ValueError, match="the type f32 or f64, as the handler"):
        define_rms_norm("x", {"eps": np.int64})


def test_an_operand_takes_the_place_of_an_attribute():
    backward = "xla_ffi_kit.rms_norm_bwd"
    define_rms_norm("xc", {"eps": np.float64}, backward)
    define_rms_norm("xcs", {}, backward)
    with pytest.raises(ValueError, match="attributes: expected {}, as the"):
        define_rms_norm("xcs", {"eps": np.float64}, backward)


# --- `python -m xla_ffi_kit describe`: lines and a page -----------------------


def described(capsys, *arguments):
    assert __main__.main(["describe", *arguments]) == 0
    return capsys.readouterr().out


def test_a_line_for_each_handler(capsys):
    lines = described(capsys, KIT.path).splitlines()
    signatures = map(KIT.signature, KIT.targets)
    assert lines == [str(signature) for signature in signatures if signature]


def test_handlers_by_name(capsys):
    assert described(capsys, KIT.path, "xla_ffi_kit.relu") == (
        f"{KIT.signature('xla_ffi_kit.relu')}\n"
    )


def test_a_page_says_what_may_be_missing(capsys):
    page = described(capsys, KIT.path, "--markdown")
    assert page.startswith("# Handlers of xla_ffi_kit_cpu.so\n")
    _, _, backward = page.partition("| `xla_ffi_kit.rms_norm_bwd` |")
    assert backward.splitlines()[:5] == [
        " operand | `x` | f16, bf16, f32, f64 | `(..., n)`; n of 1 or more |",
        "|  | operand | `ct` | like x | like x |",
        "|  | operand | `scale` | f32, f64 to add up x | `(...)`; may be "
        "missing |",
        "|  | result | `dx` | like x | like x |",
        "|  | attribute | `eps` | f32 or f64 | 0 or more; only without scale |",
    ]


def test_a_handler_without_a_signature_is_told_apart(capsys):
    assert describe.main([LIBRARY.path, "test.add_rows"]) == 0
    captured = capsys.readouterr()
    assert captured.err == "describe: test.add_rows: no signature\n"
    assert captured.out.strip() == ""


NAMED = """
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
namespace kit = xla_ffi_kit;
constexpr kit::Operand x{"x", kit::TypeList<float>(), "(...)"};
constexpr kit::Result y{"y", x};
constexpr char kName[] = "my.scael";
using ScaleCall = kit::Call<kName, x, y>;
xla::ffi::Error Run(const ScaleCall&, const kit::Executor&) { return {}; }
XLA_FFI_DEFINE_HANDLER_SYMBOL(Scale, kit::Checked<Run>, kit::BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(Scale, ScaleCall);
"""


def test_a_name_in_cpp_that_is_not_the_target(capsys, tmp_path):
    source, library = tmp_path / "scale.cc", str(tmp_path / "scale.so")
    source.write_text(NAMED)
    said = (
        'my.scale: the name in its kit::Call: expected "my.scale", as the '
        'library offers it, got "my.scael", by which its errors call it\n'
    )
    build = ["build", str(source), "-o", library, "--handler"]
    assert __main__.main([*build, "my.scale=Scale", "--", "-O0"]) == 0
    assert capsys.readouterr().err == said
    assert __main__.main(["describe", library]) == 0
    assert capsys.readouterr().err == f"describe: {said}"
    right = str(tmp_path / "right.so")
    build[3] = right
    # One of two targets has the name; the other is another name of it.
    both = ["my.scael=Scale", "--handler", "my.scale=Scale"]
    assert __main__.main([*build, *both, "--", "-O0"]) == 0
    assert capsys.readouterr().err == ""
    described(capsys, KIT.path)
    assert describe.wrong_names(KIT) == {}


def test_what_cannot_be_described(capsys, tmp_path):
    assert describe.main([str(tmp_path / "none.so")]) == 1
    assert "none.so" in capsys.readouterr().err
    assert describe.main([KIT.path, "no.such"]) == 1
    assert "has no handler 'no.such'" in capsys.readouterr().err
