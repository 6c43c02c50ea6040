#include "xla_ffi/core/call.h"
#include "xla_ffi/core/handler.h"
#include "xla_ffi/ops/rms_norm/rms_norm_call.h"
#include "xla_ffi/ops/rms_norm/rms_norm_parallel.h"

namespace xla_ffi_kit::rms_norm_internal {
namespace {

ffi::Error Forward(const ForwardCall& call, const Executor& executor) {
  return RunWithArgs(call, [&](const auto& args) {
    ParallelRmsNorm(executor, args);
    return ffi::Error();
  });
}

template <typename AnyBackwardCall>
ffi::Error Backward(const AnyBackwardCall& call, const Executor& executor) {
  return RunWithArgs(call, [&](const auto& args) {
    ParallelRmsNormBackward(executor, args);
    return ffi::Error();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu, Checked<Forward>,
                              BindCall<Forward>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormCpu, ForwardCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu,
                              Checked<Backward<BackwardCall>>,
                              BindCall<Backward<BackwardCall>>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormBwdCpu, BackwardCall);

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormWeightBwdCpu,
                              Checked<Backward<WeightBackwardCall>>,
                              BindCall<Backward<WeightBackwardCall>>());
XLA_FFI_KIT_DEFINE_SIGNATURE(XlaFfiKitRmsNormWeightBwdCpu, WeightBackwardCall);

}  // namespace xla_ffi_kit::rms_norm_internal
