// What newer FFI headers offer, each behind the version that brought it.
//
// The kit builds with FFI 0.2, so that every jaxlib from 0.8.1 on loads its
// handlers: XLA refuses a handler built with headers newer than its own, and
// there this file is empty. //tests/build:newer_ffi_headers_test compiles it,
// and all the examples beside it, with newer ones.

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

#if XLA_FFI_API_MINOR >= 4

namespace {

// 0.4: what a program that runs XLA passes to the handlers of a run, beyond
// what the FFI knows: here, who asked. The number is the maker's own choice.
struct RequestExtension {
  XLA_FFI_Extension base;
  int64_t request;
};
struct Request {
  using Type = int64_t;
  using CExtension = RequestExtension;
  static constexpr auto kName = "examples.Request";
  static constexpr int64_t kExtensionType = 0x6578616d706c6573;
  static constexpr int32_t kMajorVersion = 1, kMinorVersion = 0;
  static Type Create(const XLA_FFI_Api*, const CExtension* extension) {
    return extension->request;
  }
};

// 0.4: checks of shapes as patterns, which name the buffer in their errors.
[[maybe_unused]] ffi::Error Trace(int64_t request, ffi::AnyBuffer x,
                                  ffi::Result<ffi::AnyBuffer> y) {
  int64_t rows = 0, columns = 0;
  const auto matrix = ffi::Match(
      "x", x, ffi::match::Buffer<ffi::F32, 2>().WithDims(&rows, &columns));
  if (matrix.has_error()) return matrix.error();
  ffi::Error error =
      ffi::Verify("y", *y, ffi::match::Buffer<ffi::F32>().WithRank<0>());
  if (error.failure()) return error;
  double sum = static_cast<double>(request);
  for (int64_t i = 0; i < rows && i < columns; ++i) {
    sum += matrix->typed_data()[i * (columns + 1)];
  }
  *y->typed_data<float>() = static_cast<float>(sum);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kTrace, Trace,
                       ffi::Ffi::BindExecute()
                           .Ctx<ffi::Extension<Request>>()
                           .Arg<ffi::AnyBuffer>()    // x
                           .Ret<ffi::AnyBuffer>());  // y

// 0.4: the stage that records commands into a command buffer, in place of
// having its kernels captured.
[[maybe_unused]] ffi::Error Record() { return ffi::Error::Success(); }

XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kRecord, Record,
                       ffi::Ffi::BindRecord());

}  // namespace

#endif  // XLA_FFI_API_MINOR >= 4

#if XLA_FFI_API_MINOR >= 5

#include "xla/ffi/api/collectives_api.h"
#include "xla/ffi/api/record_api.h"

namespace {

// 0.5: communicators between devices. The headers leave to their user what an
// error is.
struct Errors {
  using Status = ffi::Error;
  template <typename T>
  using StatusOr = ffi::ErrorOr<T>;

  static Status Ok() { return Status::Success(); }
  static Status TakeError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
    Status status =
        Status::Internal(ffi::internal::GetErrorMessage(api, error));
    ffi::internal::DestroyError(api, error);
    return status;
  }
};
using Communicators = ffi::internal::CommunicatorContextBase<Errors>;
using Collectives = ffi::internal::CollectivesExtensionBase<Communicators>;

// 0.5: options that the caller of one execution passes.
[[maybe_unused]] ffi::Error Gather(Communicators communicators,
                                   ffi::Dictionary options) {
  const int64_t channel = options.contains<int64_t>("channel")
                              ? *options.get<int64_t>("channel")
                              : 0;
  return communicators.RequestCommunicator(ffi::GroupMode::kCrossReplica,
                                           /*groups=*/{{0, 1}}, channel);
}

XLA_FFI_DEFINE_HANDLER([[maybe_unused]] kGather, Gather,
                       ffi::Ffi::BindPrepare()
                           .Ctx<ffi::Extension<Collectives>>()
                           .Ctx<ffi::CustomOptions>());

}  // namespace

#endif  // XLA_FFI_API_MINOR >= 5
