#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cstddef>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

namespace xla_ffi_kit::rms_norm_internal {
namespace {

// An array as large as x is about to be written.
template <typename T, typename Args>
void AdviseLikeX(T* array, const Args& args) {
  AdviseHugePages(array, static_cast<size_t>(args.rows * args.n) * sizeof(T));
}

ffi::Error Forward(const Call& call, const Executor& executor) {
  return RunForward(call, [&](const auto& args) -> ffi::Error {
    AdviseLikeX(args.y, args);
    if (args.sum != nullptr) AdviseLikeX(args.sum, args);
    ParallelRmsNorm(executor, args);
    return {};
  });
}

template <size_t kWeight>
ffi::Error Backward(const Call& call, const Executor& executor) {
  return RunBackward(call, kWeight, [&](const auto& args) -> ffi::Error {
    AdviseLikeX(args.dx, args);
    ParallelRmsNormBackward(executor, args);
    return {};
  });
}

constexpr XlaFfiKit_Signature kWeightBackward =
    WeightBackwardSignature(/*results=*/2);

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu, (Checked<kForward, Forward>),
                              BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormCpu, kForward);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu,
                              (Checked<kBackward, Backward<kNoWeight>>),
                              BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormBwdCpu, kBackward);

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitRmsNormWeightBwdCpu,
    (Checked<kWeightBackward, Backward<kBackwardWeight>>), BindCall());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormWeightBwdCpu, kWeightBackward);

}  // namespace xla_ffi_kit::rms_norm_internal
