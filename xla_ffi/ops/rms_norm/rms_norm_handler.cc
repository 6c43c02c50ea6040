#include "xla_ffi/ops/rms_norm/rms_norm_handler.h"

#include <cstddef>
#include <string_view>

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

ffi::Error Forward(ffi::ThreadPool pool, ffi::RemainingArgs operands,
                   ffi::RemainingRets results, ffi::Dictionary attributes) {
  return RunForward(Operands(operands), Results(results), attributes,
                    [&](const auto& args) -> ffi::Error {
                      AdviseLikeX(args.y, args);
                      if (args.sum != nullptr) AdviseLikeX(args.sum, args);
                      ParallelRmsNorm(pool, args);
                      return {};
                    });
}

template <const std::string_view& kOperation>
ffi::Error Backward(ffi::ThreadPool pool, ffi::RemainingArgs operands,
                    ffi::RemainingRets results, ffi::Dictionary attributes) {
  return RunBackward(kOperation, Operands(operands), Results(results),
                     attributes, [&](const auto& args) -> ffi::Error {
                       AdviseLikeX(args.dx, args);
                       ParallelRmsNormBackward(pool, args);
                       return {};
                     });
}

auto Bind() {
  return ffi::Ffi::Bind()
      .Ctx<ffi::ThreadPool>()
      .RemainingArgs()
      .RemainingRets()
      .Attrs();
}

}  // namespace
}  // namespace xla_ffi_kit::rms_norm_internal

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormCpu,
                              xla_ffi_kit::rms_norm_internal::Forward,
                              xla_ffi_kit::rms_norm_internal::Bind());

XLA_FFI_DEFINE_HANDLER_SYMBOL(XlaFfiKitRmsNormBwdCpu,
                              xla_ffi_kit::rms_norm_internal::Backward<
                                  xla_ffi_kit::rms_norm_internal::kBackward>,
                              xla_ffi_kit::rms_norm_internal::Bind());

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    XlaFfiKitRmsNormWeightBwdCpu,
    xla_ffi_kit::rms_norm_internal::Backward<
        xla_ffi_kit::rms_norm_internal::kWeightBackward>,
    xla_ffi_kit::rms_norm_internal::Bind());
