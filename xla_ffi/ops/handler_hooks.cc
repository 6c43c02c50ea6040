// What the signatures of the kit's handlers do not say.

#include <cstddef>
#include <cstdint>
#include <string>

#include "xla_ffi/testing/call_frame.h"
#include "xla_ffi/testing/frames.h"

namespace xla_ffi_kit::testing {
namespace {

// Threads add what they found of a row in the order of the threads.
constexpr float kSums = 1e-5f;

// A period is empty only where there is nothing to repeat it for.
void FitModularAdd(CallFrame& frame, Choices&) {
  CallFrame::Dims& b = frame.args()[0].dims;
  if (frame.args()[1].dims.back() > 0 && b.back() == 0) b.back() = 1;
}

// On CUDA, partial sums of a weight's cotangent need a workspace: here one that
// holds those of all rows.
void FitRmsNormWeightBwd(CallFrame& frame, Choices&) {
  constexpr size_t kDWeight = 1, kWorkspace = 2;
  if (frame.rets().size() <= kWorkspace) return;
  int64_t bytes = sizeof(double);
  for (int64_t dim : frame.rets()[kDWeight].dims) {
    if (__builtin_mul_overflow(bytes, dim, &bytes)) return;
  }
  frame.rets()[kWorkspace].dims = {bytes};
}

}  // namespace

HandlerHooks GetHandlerHooks() {
  HandlerHooks hooks;
  hooks["xla_ffi_kit.modular_add"].fit = FitModularAdd;
  hooks["xla_ffi_kit.rms_norm_weight_bwd"].fit = FitRmsNormWeightBwd;
  for (const char* of : {"rms_norm", "rms_norm_bwd", "rms_norm_weight_bwd"}) {
    hooks[std::string("xla_ffi_kit.") + of].tolerance = kSums;
  }
  return hooks;
}

}  // namespace xla_ffi_kit::testing
