// What newer FFI headers offer, each behind the version that brought it.
//
// The kit builds with FFI 0.2, so that every jaxlib from 0.8.1 on loads its
// handlers: XLA refuses a handler built with headers newer than its own, and
// there this file is empty. //examples/ffi:newer_headers_test compiles it, and
// all the examples beside it, with newer ones.

#include <cstdint>
#include <memory>
#include <optional>

#include "xla/ffi/api/ffi.h"

#if XLA_FFI_API_MINOR >= 3

namespace {

namespace ffi = ::xla::ffi;

// 0.3: each of the stages before Execute may keep state; in 0.2 Instantiate
// alone may.
struct Plan {
  static ffi::TypeId id;
  int64_t blocks;
};
ffi::TypeId Plan::id = {};

[[maybe_unused]] ffi::ErrorOr<std::unique_ptr<Plan>> MakePlan(int64_t blocks) {
  return std::make_unique<Plan>(Plan{blocks});
}

[[maybe_unused]] ffi::Error RunPlan(Plan* prepared,
                                    ffi::ResultBufferR0<ffi::S64> blocks) {
  *blocks->typed_data() = prepared->blocks;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kPreparePlan, MakePlan,
                       ffi::Ffi::BindPrepare().Attr<int64_t>("blocks"));
XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kRunPlan, RunPlan,
                       ffi::Ffi::BindExecute()
                           .Ctx<ffi::Prepared<Plan>>()
                           .Ret<ffi::BufferR0<ffi::S64>>());

}  // namespace

#endif  // XLA_FFI_API_MINOR >= 3

#if XLA_FFI_API_MINOR >= 5

#include "xla/ffi/api/collectives_api.h"
#include "xla/ffi/api/record_api.h"

namespace {

// 0.5: checks of shapes as patterns, which name the buffer in their errors, and
// options that the caller of one execution passes.
[[maybe_unused]] ffi::Error Trace(ffi::AnyBuffer x,
                                  ffi::Result<ffi::AnyBuffer> y,
                                  ffi::Dictionary options) {
  int64_t rows = 0, columns = 0;
  const auto matrix = ffi::Match(
      "x", x, ffi::match::Buffer<ffi::F32, 2>().WithDims(&rows, &columns));
  if (matrix.has_error()) return matrix.error();
  ffi::Error error =
      ffi::Verify("y", *y, ffi::match::Buffer<ffi::F32>().WithRank<0>());
  if (error.failure()) return error;
  const double scale =
      options.contains<double>("scale") ? *options.get<double>("scale") : 1.0;
  double sum = 0;
  for (int64_t i = 0; i < rows && i < columns; ++i) {
    sum += matrix->typed_data()[i * (columns + 1)];
  }
  *y->typed_data<float>() = static_cast<float>(scale * sum);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kTrace, Trace,
                       ffi::Ffi::BindExecute()
                           .Arg<ffi::AnyBuffer>()  // x
                           .Ret<ffi::AnyBuffer>()  // y
                           .Ctx<ffi::CustomOptions>());

// 0.4: the stage that records commands into a command buffer, in place of
// having its kernels captured.
[[maybe_unused]] ffi::Error Record() { return ffi::Error::Success(); }

XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kRecord, Record,
                       ffi::Ffi::BindRecord());

}  // namespace

#endif  // XLA_FFI_API_MINOR >= 5
