// Huge pages for large results, and other memory, that nobody has touched yet.
//
// XLA's CPU client allocates results with malloc, which maps every one above 32
// MiB freshly. Writing 64 MiB then takes 16384 page faults, which take longer
// than the work itself. With huge pages there are 32 faults.
// docs/performance.md says what that gains.

#ifndef XLA_FFI_CORE_OUTPUT_PAGES_H_
#define XLA_FFI_CORE_OUTPUT_PAGES_H_

#include <cstddef>
#include <cstdint>

#include "xla_ffi/core/environment.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace xla_ffi_kit {

// Smaller results come from memory that malloc keeps, and reuses.
inline constexpr size_t kHugePagesMinBytes = size_t{4} << 20;

// Call before writing a result, on the thread of the handler. Returns whether
// it advised: not for small results, nor for pages that exist already (a
// donated operand, or memory that malloc reuses), nor where the kernel refuses.
// It never fails, and never changes what the memory contains.
inline bool AdviseHugePages(void* data, size_t bytes) {
#ifdef __linux__
  if (bytes < kHugePagesMinBytes || !UsesHugePages()) {
    return false;
  }
  // Only whole huge pages, because memory beside the result is not ours.
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (address + kHugePage - 1) & ~(kHugePage - 1);
  const uintptr_t end = (address + bytes) & ~(kHugePage - 1);
  if (begin >= end) return false;
  // One page represents all, because a result is allocated, and written, as a
  // whole.
  unsigned char is_resident = 1;
  void* const first = reinterpret_cast<void*>(begin);
  if (mincore(first, 1, &is_resident) != 0 || (is_resident & 1) != 0) {
    return false;
  }
  return madvise(first, end - begin, MADV_HUGEPAGE) == 0;
#else
  (void)data;
  (void)bytes;
  return false;
#endif
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_OUTPUT_PAGES_H_
