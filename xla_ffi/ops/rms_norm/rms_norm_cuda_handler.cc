#include <cstdint>
#include <string>

#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"

namespace xla_ffi_kit::rms_norm_internal {
namespace {

ffi::Error Forward(const ForwardCall& call, cudaStream_t stream) {
  return RunWithArgs(call, [&](const auto& args) {
    return CudaStatus(call.operation(), RmsNormCuda(args, stream));
  });
}

ffi::Error Backward(const BackwardCall& call, cudaStream_t stream) {
  return RunWithArgs(call, [&](const auto& args) {
    return CudaStatus(call.operation(), RmsNormBackwardCuda(args, stream));
  });
}

ffi::Error BackwardOfWeight(const WeightBackwardCudaCall& call,
                            cudaStream_t stream) {
  const auto memory = call.get<workspace>();
  return RunWithArgs(call, [&](const auto& args) -> ffi::Error {
    const int64_t least = RmsNormLeastWorkspace(args);
    if (memory.count() < least) {
      return call.Invalid<workspace>(
          "at least " + std::to_string(least) +
              " bytes: those of dweight in the type that sums are computed in",
          "shape " + ShapeText(memory.dims()));
    }
    return CudaStatus(
        call.operation(),
        RmsNormWeightBackwardCuda(args, memory.data(), memory.count(), stream));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda, Checked<Forward>,
                              BindCall<Forward>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormCuda, ForwardCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda, Checked<Backward>,
                              BindCall<Backward>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormBwdCuda, BackwardCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda,
                              Checked<BackwardOfWeight>,
                              BindCall<BackwardOfWeight>(),
                              {ffi::Traits::kCmdBufferCompatible});
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormWeightBwdCuda,
                             WeightBackwardCudaCall);

}  // namespace xla_ffi_kit::rms_norm_internal
