#include "accelerate/kernels/conv_general_dilated/conv_general_dilated_handler.h"

#include <algorithm>
#include <cstdint>

#include "accelerate/kernels/conv_general_dilated/conv_general_dilated.h"
#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"

namespace xla_ffi_accelerate::conv_general_dilated {
namespace {

namespace ffi = ::xla::ffi;

using Types = TypeList<float, double>;

constexpr Attribute Pair(const char* name, int64_t min) {
  return Integers(name, 2).Between(min, kMaxConvSize, "2^30");
}
constexpr Attribute kBaseDilation = Pair("base_dilation", 1),
                    kPadding = Pair("padding", -kMaxConvSize),  // before base
    kStrides = Pair("strides", 1), kWindowDilation = Pair("window_dilation", 1);
constexpr Attribute kGradientAttributes[] = {kBaseDilation, kPadding, kStrides,
                                             kWindowDilation},
                    kConvAttributes[] = {kBaseDilation, Integer("is_fused"),
                                         kPadding, kStrides, kWindowDilation};

constexpr Argument Array(const Argument& array, int32_t rank) {
  return array.Rank(rank).DtypeOf(0, "of operand base");
}
constexpr Argument kBase = Operand("operand base").Rank(4).Of(Types());
constexpr Argument kConvArguments[] = {kBase,
                                       Array(Operand("operand window"), 3),
                                       Array(Result("result"), 4)},
                   kGradientArguments[] = {kBase,
                                           Array(Operand("operand window"), 4),
                                           Array(Result("result"), 3)};

constexpr XlaFfiKit_Signature
    kConv = MakeSignature("xla_ffi_accelerate.conv_general_dilated",
                          kConvArguments, kConvAttributes),
    kGradient =
        MakeSignature("xla_ffi_accelerate.conv_general_dilated_kernel_gradient",
                      kGradientArguments, kGradientAttributes);

// Checks what a signature cannot express: the last axis is the channels, the
// two before it are spatial, and the first of four is the batch.
ffi::Error CheckShapes(const Call& call) {
  const Dimensions model = call.operand(0).dimensions();
  for (size_t i = 0; i < 3; ++i) {
    const Dimensions dims = call.argument(i).dimensions();
    const size_t rank = dims.size();
    if (dims[rank - 1] != model[3] || (rank == 4 && dims[0] != model[0])) {
      return call.Invalid(
          i, "batch and channels of operand base, of shape " + ShapeText(model),
          "shape " + ShapeText(dims));
    }
    if (std::max(dims[rank - 3], dims[rank - 2]) > kMaxConvSize) {
      return call.Invalid(i, "spatial dimensions up to 2^30",
                          "shape " + ShapeText(dims));
    }
  }
  return {};
}

DepthwiseConv ConvOf(const Call& call) {
  const auto base_dilation = call.Get<Dimensions>("base_dilation"),
             padding = call.Get<Dimensions>("padding"),
             strides = call.Get<Dimensions>("strides"),
             window_dilation = call.Get<Dimensions>("window_dilation");
  const auto dimension = [&](size_t i) -> ConvDimension {
    const auto size = [&](size_t argument) {
      const Dimensions dims = call.argument(argument).dimensions();
      return dims[dims.size() - 3 + i];
    };
    const int64_t base = size(0), window = size(1), result = size(2);
    return {base,
            window,
            result,
            strides[i],
            padding[i],
            base_dilation[i],
            window_dilation[i]};
  };
  const Dimensions base = call.operand(0).dimensions();
  return {base[0], base[3], dimension(0), dimension(1)};
}

// Calls run(base, window, scratch, result).
template <typename Fn>
ffi::Error WithScratch(const Call& call, int64_t size, const Fn& run) {
  return call.Dispatch(Types(), 0, [&](auto tag) -> ffi::Error {
    using T = typename decltype(tag)::type;
    const HostScratch<T> scratch(size);
    if (!scratch.status()) {
      return ScratchExhausted(call.operation(), "for a convolution",
                              scratch.status(), "convolve fewer channels");
    }
    run(call.In<T>(0), call.In<T>(1), scratch.get(), call.Out<T>(0));
    return {};
  });
}

ffi::Error RunConv(const Call& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call));
  const ffi::AnyBuffer result = call.result(0);
  if (ElementCount(result) == 0) return {};
  const DepthwiseConv conv = ConvOf(call);
  const bool is_fused = call.Get<int64_t>("is_fused") != 0;
  AdviseHugePages(result.untyped_data(), SizeBytes(result));
  return WithScratch(call, conv.channels, [&](auto x, auto w, auto z, auto y) {
    std::fill_n(z, conv.channels, 0);
    RunDepthwiseConv(conv, x, w, z, is_fused, y, executor);
  });
}

ffi::Error RunGradient(const Call& call, const Executor& executor) {
  XLA_FFI_KIT_RETURN_IF_ERROR(CheckShapes(call));
  if (ElementCount(call.result(0)) == 0) return {};
  DepthwiseConv conv = ConvOf(call);
  const bool has_sums =
      ElementCount(call.operand(0)) > 0 && ElementCount(call.operand(1)) > 0;
  if (!has_sums) conv.batch = 0;
  return WithScratch(call, DepthwiseKernelGradientScratch(conv),
                     [&](auto x, auto w, auto scratch, auto y) {
                       RunDepthwiseKernelGradient(conv, x, w, scratch, y,
                                                  executor);
                     });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiAccelerateConvGeneralDilatedCpu,
                              (Checked<kConv, RunConv>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiAccelerateConvGeneralDilatedCpu, kConv);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu,
    (Checked<kGradient, RunGradient>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(
    XlaFfiAccelerateConvGeneralDilatedKernelGradientCpu, kGradient);

}  // namespace xla_ffi_accelerate::conv_general_dilated
