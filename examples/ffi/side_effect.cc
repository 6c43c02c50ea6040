// Side effects: calls that must happen although nobody reads their result.
//
// examples.log: (x s32[]) -> x, and appends x to a log of the process;
// examples.read_log: () -> (count s32[], last s32[8]). In JAX,
// ffi_call(..., has_side_effect=True) keeps XLA from removing such a call or
// doing two equal ones at once. It orders nothing: calls run in order where one
// takes the other's result, or a token of it.

#include <algorithm>
#include <cstdint>
#include <mutex>  // NOLINT
#include <vector>

#include "xla/ffi/api/ffi.h"

namespace {

namespace ffi = ::xla::ffi;

struct Log {
  std::mutex mutex;
  std::vector<int32_t> entries;
};

Log& TheLog() {
  static auto* log = new Log;  // never deleted: a late call may still write
  return *log;
}

ffi::Error Append(ffi::BufferR0<ffi::S32> x, ffi::ResultBufferR0<ffi::S32> y) {
  std::lock_guard<std::mutex> lock(TheLog().mutex);
  TheLog().entries.push_back(*x.typed_data());
  *y->typed_data() = *x.typed_data();
  return ffi::Error::Success();
}

ffi::Error Read(ffi::ResultBufferR0<ffi::S32> count,
                ffi::ResultBufferR1<ffi::S32> last) {
  std::lock_guard<std::mutex> lock(TheLog().mutex);
  const std::vector<int32_t>& entries = TheLog().entries;
  const size_t n = std::min(entries.size(), last->element_count());
  std::fill_n(last->typed_data(), last->element_count(), 0);
  std::copy(entries.end() - n, entries.end(), last->typed_data());
  *count->typed_data() = static_cast<int32_t>(entries.size());
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleLog, Append,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::BufferR0<ffi::S32>>()    // x
                                  .Ret<ffi::BufferR0<ffi::S32>>());  // x

XLA_FFI_DEFINE_HANDLER_SYMBOL(ExampleReadLog, Read,
                              ffi::Ffi::Bind()
                                  .Ret<ffi::BufferR0<ffi::S32>>()    // count
                                  .Ret<ffi::BufferR1<ffi::S32>>());  // last
