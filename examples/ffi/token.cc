// Tokens: values without data that order calls.
//
// examples.stamp: (after token) -> (token, tick s32[]): a process-wide clock
// that ticks once per call. Two calls whose tokens are chained run in that
// order; without tokens XLA may run them in any order.

#include <atomic>
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

ffi::Error Stamp(ffi::Token /*after*/, ffi::Result<ffi::Token> token,
                 ffi::ResultBufferR0<ffi::S32> tick) {
  static std::atomic<int32_t> clock = 0;
  if (token->size_bytes() != 0) {
    return ffi::Error::Internal("examples.stamp: a token carries no data");
  }
  *tick->typed_data() = ++clock;
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleStamp, Stamp,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Token>()                 // after
                                  .Ret<ffi::Token>()                 // token
                                  .Ret<ffi::BufferR0<ffi::S32>>());  // tick
