"""What handlers say of themselves, who prints it, and what does not fit."""

import ctypes

import numpy as np
import pytest
from common import LIBRARY, handled

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


# --- A page by `python -m xla_ffi_kit describe`, and names --------------------


def test_a_page_says_what_may_be_missing(capsys):
    assert __main__.main(["describe", KIT.path]) == 0
    page = capsys.readouterr().out
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


def test_what_has_no_page(capsys, tmp_path):
    assert __main__.main(["describe", str(tmp_path / "none.so")]) == 1
    assert "none.so does not exist" in capsys.readouterr().err


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
    assert doctor.main([library]) == 0
    assert said in capsys.readouterr().out
    right = str(tmp_path / "right.so")
    build[3] = right
    # One of two targets has the name; the other is another name of it.
    both = ["my.scael=Scale", "--handler", "my.scale=Scale"]
    assert __main__.main([*build, *both, "--", "-O0"]) == 0
    assert capsys.readouterr().err == ""
    assert describe.wrong_names(KIT) == {}
