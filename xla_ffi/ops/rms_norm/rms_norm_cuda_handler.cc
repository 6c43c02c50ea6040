#include "xla_ffi/core/cuda/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

namespace xla_ffi_kit::rms_norm_internal {
namespace {

ffi::Error Forward(cudaStream_t stream, ffi::RemainingArgs operands,
                   ffi::RemainingRets results, ffi::Dictionary attributes) {
  return RunForward(Operands(operands), Results(results), attributes,
                    [&](const auto& args) {
                      return CudaStatus(kForward, RmsNormCuda(args, stream));
                    });
}

ffi::Error Backward(cudaStream_t stream, ffi::RemainingArgs operands,
                    ffi::RemainingRets results, ffi::Dictionary attributes) {
  return RunBackward(kBackward, Operands(operands), Results(results),
                     attributes, [&](const auto& args) {
                       return CudaStatus(kBackward,
                                         RmsNormBackwardCuda(args, stream));
                     });
}

ffi::Error WeightBackward(cudaStream_t stream, ffi::ScratchAllocator scratch,
                          ffi::RemainingArgs operands,
                          ffi::RemainingRets results,
                          ffi::Dictionary attributes) {
  return RunBackward(
      kWeightBackward, Operands(operands), Results(results), attributes,
      [&](const auto& args) -> ffi::Error {
        RmsNormWeightBackwardPlan plan;
        XLA_FFI_KIT_RETURN_IF_ERROR(CudaStatus(
            kWeightBackward, PlanRmsNormWeightBackward(args, &plan)));
        XLA_FFI_KIT_ASSIGN_OR_RETURN(
            void* const memory,
            GetScratch(kWeightBackward, scratch, plan.scratch_bytes));
        return CudaStatus(kWeightBackward, RmsNormWeightBackwardCuda(
                                               args, plan, memory, stream));
      });
}

auto Bind() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<cudaStream_t>>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

auto BindWithScratch() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<cudaStream_t>>()
      .Ctx<ffi::ScratchAllocator>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

}  // namespace
}  // namespace xla_ffi_kit::rms_norm_internal

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCuda,
                              xla_ffi_kit::rms_norm_internal::Forward,
                              xla_ffi_kit::rms_norm_internal::Bind(),
                              {xla::ffi::Traits::kCmdBufferCompatible});

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCuda,
                              xla_ffi_kit::rms_norm_internal::Backward,
                              xla_ffi_kit::rms_norm_internal::Bind(),
                              {xla::ffi::Traits::kCmdBufferCompatible});

// Not compatible with command buffers: see GetScratch().
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitRmsNormWeightBwdCuda,
    xla_ffi_kit::rms_norm_internal::WeightBackward,
    xla_ffi_kit::rms_norm_internal::BindWithScratch());
