#include "accelerate/kernels/conv_general_dilated/conv_general_dilated_handler.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "accelerate/kernels/conv_general_dilated/conv_general_dilated.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_kit {
namespace {

namespace ffi = ::xla::ffi;

constexpr std::string_view kOp = "xla_ffi_accelerate.conv_general_dilated";
constexpr std::string_view kGradient =
    "xla_ffi_accelerate.conv_general_dilated_kernel_gradient";

using Pair = ffi::Span<const int64_t>;
using Types = TypeList<float, double>;

// The attributes that both targets have.
struct Geometry {
  Pair strides, padding, base_dilation, window_dilation;
};

ffi::Error CheckGeometry(std::string_view op, const Geometry& g) {
  const auto check = [op](std::string_view argument, Pair pair, int64_t min) {
    return CheckPair({op, argument}, pair, min, kMaxConvSize, "2^30");
  };
  XLA_FFI_KIT_RETURN_IF_ERROR(check("attribute strides", g.strides, 1));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      check("attribute padding", g.padding, -kMaxConvSize));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      check("attribute base_dilation", g.base_dilation, 1));
  return check("attribute window_dilation", g.window_dilation, 1);
}

// `buffer` has `rank` dimensions, the last of them channels, before them two
// spatial ones, and is like `base`.
ffi::Error CheckBuffer(const Place& where, ffi::AnyBuffer buffer, size_t rank,
                       ffi::AnyBuffer base) {
  const Dimensions dims = buffer.dimensions(), model = base.dimensions();
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckRank(where, buffer, rank));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, buffer, base.element_type(), "of operand base"));
  if (dims[rank - 1] != model[3] || (rank == 4 && dims[0] != model[0])) {
    return InvalidArgument(
        where,
        "batch and channels of operand base, of shape " + ShapeText(model),
        "shape " + ShapeText(dims));
  }
  for (size_t i = rank - 3; i + 1 < rank; ++i) {
    if (dims[i] > kMaxConvSize) {
      return InvalidArgument(where, "spatial dimensions up to 2^30",
                             "shape " + ShapeText(dims));
    }
  }
  return CheckData(where, buffer);
}

ConvDimension Dimension(const Geometry& g, int i, int64_t base, int64_t window,
                        int64_t result) {
  ConvDimension dimension;
  dimension.base = base;
  dimension.window = window;
  dimension.result = result;
  dimension.stride = g.strides[i];
  dimension.padding = g.padding[i];
  dimension.base_dilation = g.base_dilation[i];
  dimension.window_dilation = g.window_dilation[i];
  return dimension;
}

// Checks all there is, and says what is to be done.
ffi::ErrorOr<DepthwiseConv> MakeConv(std::string_view op, const Geometry& g,
                                     ffi::AnyBuffer base, ffi::AnyBuffer window,
                                     size_t window_rank, ffi::AnyBuffer result,
                                     size_t result_rank) {
  // Before the others, which are compared with its dimensions.
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckBuffer({op, "operand base"}, base, 4, base));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckBuffer({op, "operand window"}, window, window_rank, base));
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckBuffer({op, "result"}, result, result_rank, base));
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckGeometry(op, g));
  const Dimensions b = base.dimensions();
  const int64_t* w = window.dimensions().begin() + (window_rank - 3);
  const int64_t* r = result.dimensions().begin() + (result_rank - 3);
  DepthwiseConv conv;
  conv.batch = b[0];
  conv.channels = b[3];
  conv.rows = Dimension(g, 0, b[1], w[0], r[0]);
  conv.columns = Dimension(g, 1, b[2], w[1], r[1]);
  return conv;
}

ffi::Error NoScratch(std::string_view op, const ScratchStatus& status) {
  return ScratchExhausted(op, "for a convolution", status,
                          "convolve fewer channels");
}

ffi::Error ConvImpl(ffi::ThreadPool pool, ffi::AnyBuffer base,
                    ffi::AnyBuffer window, ffi::Result<ffi::AnyBuffer> result,
                    Pair strides, Pair padding, Pair base_dilation,
                    Pair window_dilation, int64_t is_fused) {
  const Geometry geometry = {strides, padding, base_dilation, window_dilation};
  XLA_FFI_KIT_ASSIGN_OR_RETURN(
      const DepthwiseConv conv,
      MakeConv(kOp, geometry, base, window, 3, *result, 4));
  return DispatchDtype(
      Types(), base.element_type(), {kOp, "operand base"}, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (ElementCount(*result) == 0) return ffi::Error();
        const HostScratch<T> zeros(conv.channels);
        if (!zeros.status()) return NoScratch(kOp, zeros.status());
        std::fill_n(zeros.get(), conv.channels, T(0));
        AdviseHugePages(result->untyped_data(), SizeBytes(*result));
        RunDepthwiseConv(conv, static_cast<const T*>(base.untyped_data()),
                         static_cast<const T*>(window.untyped_data()),
                         zeros.get(), is_fused != 0,
                         static_cast<T*>(result->untyped_data()), pool);
        return ffi::Error();
      });
}

ffi::Error GradientImpl(ffi::ThreadPool pool, ffi::AnyBuffer base,
                        ffi::AnyBuffer window,
                        ffi::Result<ffi::AnyBuffer> result, Pair strides,
                        Pair padding, Pair base_dilation,
                        Pair window_dilation) {
  const Geometry geometry = {strides, padding, base_dilation, window_dilation};
  XLA_FFI_KIT_ASSIGN_OR_RETURN(
      DepthwiseConv conv,
      MakeConv(kGradient, geometry, base, window, 4, *result, 3));
  return DispatchDtype(
      Types(), base.element_type(), {kGradient, "operand base"}, [&](auto tag) {
        using T = typename decltype(tag)::type;
        if (ElementCount(*result) == 0) return ffi::Error();
        if (ElementCount(base) == 0 || ElementCount(window) == 0) {
          conv.batch = 0;  // sums of nothing
        }
        const HostScratch<T> scratch(DepthwiseKernelGradientScratch(conv));
        if (!scratch.status()) return NoScratch(kGradient, scratch.status());
        RunDepthwiseKernelGradient(
            conv, static_cast<const T*>(base.untyped_data()),
            static_cast<const T*>(window.untyped_data()), scratch.get(),
            static_cast<T*>(result->untyped_data()), pool);
        return ffi::Error();
      });
}

// What both targets have.
auto Bind() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .Arg<ffi::AnyBuffer>()  // base
      .Arg<ffi::AnyBuffer>()  // window
      .Ret<ffi::AnyBuffer>()  // result
      .Attr<Pair>("strides")
      .Attr<Pair>("padding")  // before, of base
      .Attr<Pair>("base_dilation")
      .Attr<Pair>("window_dilation");
}

}  // namespace
}  // namespace xla_ffi_kit

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateConvGeneralDilatedCpu, xla_ffi_kit::ConvImpl,
    xla_ffi_kit::Bind().Attr<int64_t>("is_fused"));  // 0 or 1

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu,
    xla_ffi_kit::GradientImpl, xla_ffi_kit::Bind());
