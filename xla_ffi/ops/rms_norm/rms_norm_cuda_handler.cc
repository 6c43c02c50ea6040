#include <cstdint>
#include <string>

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

// Of `least` bytes or more.
ffi::Error CheckWorkspace(ffi::AnyBuffer workspace, int64_t least) {
  const Place where = {kWeightBackward, "result workspace"};
  XLA_FFI_KIT_RETURN_IF_ERROR(
      CheckDtype(where, workspace, ffi::U8, "on CUDA devices"));
  const Dimensions shape = workspace.dimensions();
  if (shape.size() != 1 || shape.front() < least) {
    return InvalidArgument(where,
                           "one axis of at least " + std::to_string(least) +
                               " bytes: those of dweight in the type that sums "
                               "are computed in",
                           "shape " + ShapeText(shape));
  }
  return CheckData(where, workspace);
}

ffi::Error WeightBackward(cudaStream_t stream, ffi::RemainingArgs operands,
                          ffi::RemainingRets results,
                          ffi::Dictionary attributes) {
  const Results all(results);
  return RunBackward(
      kWeightBackward, Operands(operands), all, attributes,
      [&](const auto& args) -> ffi::Error {
        const ffi::AnyBuffer workspace = *all[2];
        XLA_FFI_KIT_RETURN_IF_ERROR(
            CheckWorkspace(workspace, RmsNormLeastWorkspace(args)));
        return CudaStatus(
            kWeightBackward,
            RmsNormWeightBackwardCuda(
                args, workspace.untyped_data(),
                static_cast<int64_t>(workspace.element_count()), stream));
      },
      /*has_workspace=*/true);
}

auto Bind() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::PlatformStream<cudaStream_t>>()
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

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCuda,
                              xla_ffi_kit::rms_norm_internal::WeightBackward,
                              xla_ffi_kit::rms_norm_internal::Bind(),
                              {xla::ffi::Traits::kCmdBufferCompatible});
