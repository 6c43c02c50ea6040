// Host memory for the time of one call.

#ifndef XLA_FFI_CORE_HOST_SCRATCH_H_
#define XLA_FFI_CORE_HOST_SCRATCH_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "xla_ffi/core/environment.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace xla_ffi_kit {

// `n` uninitialized elements of a trivial type T; `get()` is null when there
// is no memory for them.
template <typename T>
class HostScratch {
 public:
  explicit HostScratch(int64_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    constexpr size_t kMax = std::numeric_limits<size_t>::max() / 2;
    if (static_cast<size_t>(n) > kMax / sizeof(T)) return;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    // Fresh memory costs a page fault per page, as much as sorting what is on
    // it; huge pages make it a 512th.
    const bool is_large = bytes >= (size_t{4} << 20) && UsesHugePages();
    const size_t alignment = is_large ? kHugePage : 64;
    const size_t rounded = (bytes + alignment) / alignment * alignment;
    data_ = static_cast<T*>(std::aligned_alloc(alignment, rounded));
#ifdef __linux__
    if (is_large && data_ != nullptr) madvise(data_, rounded, MADV_HUGEPAGE);
#endif
  }
  ~HostScratch() { std::free(data_); }
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;

  T* get() const { return data_; }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;

  T* data_ = nullptr;
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_HOST_SCRATCH_H_
