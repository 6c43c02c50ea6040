#include <cstdint>
#include <string>

#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

namespace xla_ffi_kit::rms_norm_internal {
namespace {

constexpr XlaFfiKit_Signature kWeightBackward =
    WeightBackwardSignature(/*results=*/3);

ffi::Error Forward(const Call& call, cudaStream_t stream) {
  return RunForward(call, [&](const auto& args) {
    return CudaStatus(call.operation(), RmsNormCuda(args, stream));
  });
}

ffi::Error Backward(const Call& call, cudaStream_t stream) {
  return RunBackward(call, kNoWeight, [&](const auto& args) {
    return CudaStatus(call.operation(), RmsNormBackwardCuda(args, stream));
  });
}

ffi::Error WeightBackward(const Call& call, cudaStream_t stream) {
  const Dimensions workspace = call.result(2).dimensions();
  return RunBackward(
      call, kBackwardWeight, [&](const auto& args) -> ffi::Error {
        const int64_t least = RmsNormLeastWorkspace(args);
        if (workspace[0] < least) {
          return call.Invalid(
              kBackwardWorkspace,
              "one axis of at least " + std::to_string(least) +
                  " bytes: those of dweight in the type that sums are computed "
                  "in",
              "shape " + ShapeText(workspace));
        }
        return CudaStatus(call.operation(),
                          RmsNormWeightBackwardCuda(args, call.Out<void>(2),
                                                    workspace[0], stream));
      });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda,
                              (Checked<kForward, Forward, cudaStream_t>),
                              BindCall<ffi::PlatformStream<cudaStream_t>>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormCuda, kForward);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda,
                              (Checked<kBackward, Backward, cudaStream_t>),
                              BindCall<ffi::PlatformStream<cudaStream_t>>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormBwdCuda, kBackward);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitRmsNormWeightBwdCuda,
    (Checked<kWeightBackward, WeightBackward, cudaStream_t>),
    BindCall<ffi::PlatformStream<cudaStream_t>>(),
    {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormWeightBwdCuda, kWeightBackward);

}  // namespace xla_ffi_kit::rms_norm_internal
