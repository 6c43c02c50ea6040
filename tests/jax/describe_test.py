"""`python -m xla_ffi_kit describe`: lines and a page."""

import pathlib

import xla_ffi_kit
from xla_ffi_kit import __main__
from xla_ffi_kit.library import describe

KIT = xla_ffi_kit.ops.LIBRARIES[0]
TEST = str(pathlib.Path(__file__).parent / "test_handlers.so")


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
    assert describe.main([TEST, "test.add_rows"]) == 0
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
