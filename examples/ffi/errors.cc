// Errors: every code, and an exception.
//
// examples.fail: fails with the code and the message of its attributes; with
// code 0 it succeeds, with -1 it throws. In JAX an error ends the program and
// arrives as jax.errors.JaxRuntimeError, whose text begins with the code.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

// The codes, in the order of their numbers.
constexpr ffi::ErrorCode kCodes[] = {
    ffi::ErrorCode::kOk,
    ffi::ErrorCode::kCancelled,
    ffi::ErrorCode::kUnknown,
    ffi::ErrorCode::kInvalidArgument,
    ffi::ErrorCode::kDeadlineExceeded,
    ffi::ErrorCode::kNotFound,
    ffi::ErrorCode::kAlreadyExists,
    ffi::ErrorCode::kPermissionDenied,
    ffi::ErrorCode::kResourceExhausted,
    ffi::ErrorCode::kFailedPrecondition,
    ffi::ErrorCode::kAborted,
    ffi::ErrorCode::kOutOfRange,
    ffi::ErrorCode::kUnimplemented,
    ffi::ErrorCode::kInternal,
    ffi::ErrorCode::kUnavailable,
    ffi::ErrorCode::kDataLoss,
    ffi::ErrorCode::kUnauthenticated,
};

constexpr int32_t kNumCodes = sizeof(kCodes) / sizeof(kCodes[0]);

ffi::Error Fail(ffi::ResultBufferR0<ffi::S32> y, int32_t code,
                std::string_view message) {
  // XLA catches exceptions, and reports them as UNKNOWN.
  if (code == -1) throw std::runtime_error(std::string(message));
  if (code < -1 || code >= kNumCodes) {
    return ffi::Error::InvalidArgument(
        "examples.fail: attribute code: expected -1 to 16, got " +
        std::to_string(code));
  }
  *y->typed_data() = code;
  const ffi::Error error(kCodes[code], std::string(message));
  return error.success() ? ffi::Error::Success() : error;
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleFail, Fail,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR0<ffi::S32>>()  // y
                                  .Attr<int32_t>("code")
                                  .Attr<std::string_view>("message"));
