"""What handlers say of themselves, who prints it, and what does not fit."""

import ctypes

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
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


# --- The handlers of authors: kit::Call and KIT_DEFINE_HANDLER, and strings ---

TWICE = """
#include "xla_ffi/strings/kit.h"
template <typename T>
void Scale(kit::In<T> x, kit::In<int32_t> times, double factor, kit::Out<T> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = T(times[i] * factor * x[i]);
}
KIT_DEFINE_HANDLER(ScaleHandler, "x times -> y", "factor", Scale<float>,
                   Scale<double>);
"""
SWISH = """
#include <cmath>
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
namespace kit = xla_ffi_kit;
constexpr kit::Operand x{"x", kit::RealFloatTypes(), "(...)"};
constexpr kit::Result y{"y", x};
constexpr kit::Attribute<double> beta{"beta"};
constexpr char kName[] = "author.swish";
using SwishCall = kit::Call<kName, x, beta, y>;
xla::ffi::Error Run(const SwishCall& call, const kit::Executor&) {
  return call.Dispatch<x>([&](auto tag) {
    const auto* in = call.get<x>().as(tag);
    auto* out = call.get<y>().as(tag);
    for (int64_t i = 0; i < call.get<x>().count(); ++i) {
      const float v = static_cast<float>(in[i]);
      out[i] = static_cast<std::decay_t<decltype(*out)>>(
          v / (1 + std::exp(-float(call.get<beta>()) * v)));
    }
    return xla::ffi::Error();
  });
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(Swish, kit::Checked<Run>,
                              kit::BindCall<Run>());
XLA_FFI_KIT_DEFINE_SIGNATURE(Swish, SwishCall);
"""
FROM = "as the handler author.{} of swish_cpu.so takes"


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("author")
    (folder / "swish.cc").write_text(SWISH)
    (folder / "scale.cc").write_text(TWICE)
    handlers = {"author.swish": "Swish", "author.scale": "ScaleHandler"}
    return xla_ffi_kit.build_library(
        [folder / "swish.cc", folder / "scale.cc"],
        handlers,
        folder / "swish_cpu.so",
    )


def swish_of(library, reference):
    return xla_ffi_kit.FfiOp("author.swish", reference, libraries=library)


def test_name_reference_and_library_are_an_operation(library):
    swish = swish_of(library, lambda x, *, beta: x * jax.nn.sigmoid(beta * x))
    x = np.linspace(-9, 9, 12).reshape(3, 4)
    want = x / (1 + np.exp(-1.5 * x))
    np.testing.assert_allclose(swish(np.float32(x), beta=1.5), want, 1e-5)
    text = jax.jit(lambda x: swish(x, beta=1.5)).lower(jnp.ones(3)).as_text()
    assert "@author.swish(" in text
    with pytest.raises(TypeError, match="swish: operand x: expected dtype"):
        swish(np.int32([1]), beta=1.5)
    assert said(swish_of, library, lambda x, *, beat: x) == (
        "ValueError: author.swish: attributes: expected {beta}, "
        f"{FROM.format('swish')} them, got {{beat}}"
    )


def test_a_handler_of_plain_functions_says_it_too(library):
    told = library.signature("author.scale")
    assert str(told) == (
        "ScaleHandler(x: f32|f64[any shape], times: s32[any shape], *, factor: "
        "f64) -> y: f32|f64[any shape]"
    )
    assert told.combinations == (("f32", "s32"), ("f64", "s32"))

    def reference(x, times, *, factor):
        return times * factor * x

    def scale(reference):
        return xla_ffi_kit.FfiOp(
            "author.scale", reference, kernel_axes=0, libraries=library
        )

    got = scale(reference)(np.float32([1, 2]), np.int32([3, 4]), factor=0.5)
    np.testing.assert_array_equal(got, [1.5, 4])
    with pytest.raises(TypeError, match="operand times: expected dtype int32"):
        scale(reference)(np.float32([1, 2]), np.float32([3, 4]), factor=0.5)
    assert said(scale, lambda x, times, *, factors: times * factors * x) == (
        "ValueError: author.scale: attributes: expected {factor}, "
        f"{FROM.format('scale')} them, got {{factors}}"
    )


def refuses(target, operands, like, **attributes):
    """The error of a call that no operation has seen before."""
    call = jax.ffi.ffi_call(target, like)
    with pytest.raises(Exception) as caught:
        jax.block_until_ready(call(*operands, **attributes))
    return str(caught.value)


def test_handlers_refuse_other_calls(library):
    swish = swish_of(library, lambda x, *, beta: x)
    x = np.float32([1, 2])
    swish(x, beta=1.0)  # registers it
    three = jax.ShapeDtypeStruct((3,), x.dtype)
    assert "result y: expected shape (2) like operand x, got shape (3)" in (
        refuses("author.swish", [x], three, beta=1.0)
    )
    product = xla_ffi_kit.elementwise("x * y", dtypes="f32 f64")(
        lambda x, y: x * y
    )
    (library,) = product.spec.libraries
    assert str(library.signature(library.target)) == (
        "lambda(x: f32|f64[...], y: f32|f64[...]) -> result: f32|f64[...]"
    )
    product(x, x)
    assert (
        "lambda: result result: expected shape (...), with the batch axes of "
        "those before it, got shape (3)"
    ) in refuses(library.target, [x, x], three)


def test_rows_say_the_axes_of_a_row():
    @xla_ffi_kit.rows(
        "y[0] = x[0] * w[0];", results=["y"], dtypes="f32", shared="w"
    )
    def first(x, w):
        return x[..., :1] * w[:1]

    (library,) = first.spec.libraries
    assert str(library.signature(library.target)) == (
        "first(x: f32[..., a], w: f32[b]) -> y: f32[any shape]"
    )
    np.testing.assert_array_equal(
        first(np.float32([[2, 0], [3, 0]]), np.float32([5, 1])), [[10], [15]]
    )
