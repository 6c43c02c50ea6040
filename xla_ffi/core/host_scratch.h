// Host memory for the time of one call.

#ifndef XLA_FFI_CORE_HOST_SCRATCH_H_
#define XLA_FFI_CORE_HOST_SCRATCH_H_

#include <algorithm>
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

// Whether a kernel got the memory that it needs: true as a bool, or false if
// `missing_bytes` could not be allocated.
struct [[nodiscard]] ScratchStatus {
  int64_t missing_bytes = 0;

  explicit operator bool() const { return missing_bytes == 0; }
};

// Holds `n` uninitialized elements of a trivial type T; `get()` is null if
// there is no memory for them.
template <typename T>
class HostScratch {
 public:
  HostScratch() = default;  // none: null
  explicit HostScratch(int64_t n) {
    static_assert(std::is_trivially_destructible_v<T>);
    constexpr size_t kMax = std::numeric_limits<size_t>::max() / 2 - kHugePage;
    bytes_ = static_cast<int64_t>(kMax);
    if (static_cast<size_t>(n) > kMax / sizeof(T)) return;
    const size_t bytes = static_cast<size_t>(n) * sizeof(T);
    bytes_ = static_cast<int64_t>(bytes);
    // Fresh memory costs a page fault for each page, which takes as long as
    // sorting its content. Huge pages have a 512th of the faults.
    const bool is_large = bytes >= (size_t{4} << 20) && UsesHugePages();
    const size_t alignment = is_large ? kHugePage : 64;
    const size_t blocks = (std::max<size_t>(bytes, 1) - 1) / alignment + 1;
    const size_t rounded = blocks * alignment;
    data_ = static_cast<T*>(std::aligned_alloc(alignment, rounded));
#ifdef __linux__
    if (is_large && data_ != nullptr) madvise(data_, rounded, MADV_HUGEPAGE);
#endif
  }
  ~HostScratch() { std::free(data_); }
  HostScratch(const HostScratch&) = delete;
  HostScratch& operator=(const HostScratch&) = delete;

  T* get() const { return data_; }

  ScratchStatus status() const {
    return {data_ == nullptr ? std::max<int64_t>(bytes_, 1) : 0};
  }

 private:
  static constexpr size_t kHugePage = size_t{2} << 20;

  T* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Scratch memory for each worker of a loop (parallel_for.h). It is one block
// that is allocated before the loop, because tasks must not fail.
template <typename T>
class WorkerScratch {
 public:
  WorkerScratch(int64_t workers, int64_t n)
      : stride_(Stride(workers, n)), memory_(workers * stride_) {}

  T* of(int64_t worker) const { return memory_.get() + worker * stride_; }
  ScratchStatus status() const { return memory_.status(); }

 private:
  // Whole cache lines, so that workers do not write to the same ones.
  static int64_t Stride(int64_t workers, int64_t n) {
    constexpr int64_t kLine = 64 / sizeof(T) == 0 ? 1 : 64 / sizeof(T);
    // This is more than any memory has, and the product does not overflow.
    n = std::min(n, std::numeric_limits<int64_t>::max() / workers - kLine);
    return (n + kLine - 1) / kLine * kLine;
  }

  const int64_t stride_;
  const HostScratch<T> memory_;
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_HOST_SCRATCH_H_
