// Makes allocations of a test fail in every thread: by `new`, malloc and the
// other functions of the C library. Of shared libraries only those by `new`
// fail. Works under sanitizers too.

#ifndef XLA_FFI_TESTING_FAILING_MEMORY_H_
#define XLA_FFI_TESTING_FAILING_MEMORY_H_

#include <cstdint>
#include <limits>

namespace xla_ffi_kit::testing {

// While it lives, allocations are counted from 0, and those of the numbers
// [first, last) fail. One at a time.
class FailingMemory {
 public:
  explicit FailingMemory(int64_t first = std::numeric_limits<int64_t>::max(),
                         int64_t last = std::numeric_limits<int64_t>::max());
  ~FailingMemory();
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;
};

// For the last FailingMemory, the number of allocations so far, and the bytes
// of the first one that failed, -1 if none did.
int64_t CountedAllocations();
int64_t FailedBytes();

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FAILING_MEMORY_H_
