"""What the handlers of authors say that they take, and who reads it: those of
kit::Call and KIT_DEFINE_HANDLER in files, and of strings."""

import inline_data  # noqa: F401  a cache of the test's own
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from common import said

import xla_ffi_kit

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
