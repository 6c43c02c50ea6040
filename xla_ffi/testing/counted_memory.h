// Counts what this program allocates, for tests: malloc and what is made of it.

#ifndef XLA_FFI_TESTING_COUNTED_MEMORY_H_
#define XLA_FFI_TESTING_COUNTED_MEMORY_H_

#include <cstdint>

#include "xla_ffi/testing/call_frame.h"

namespace xla_ffi_kit::testing {

// Sanitizers have a malloc of their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCountsMemory = false;
#else
inline constexpr bool kCountsMemory = true;
#endif

// The most memory at a time, from now on, beside what there is now.
class PeakMemory {
 public:
  PeakMemory();
  int64_t bytes() const;

 private:
  int64_t before_;
};

// Returns the peak of a call, which must succeed. It includes the call frame's
// own memory.
int64_t PeakOfCall(XLA_FFI_Handler* handler, CallFrame frame);

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_COUNTED_MEMORY_H_
