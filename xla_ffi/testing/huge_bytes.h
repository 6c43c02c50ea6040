// Memory for more than 2^31 elements.

#ifndef XLA_FFI_TESTING_HUGE_BYTES_H_
#define XLA_FFI_TESTING_HUGE_BYTES_H_

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace xla_ffi_kit::testing {

// Zeros, and pages only where something was written.
class HugeBytes {
 public:
  explicit HugeBytes(int64_t size)
      : size_(size),
        data_(static_cast<int8_t*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
    if (static_cast<void*>(data_) == MAP_FAILED) std::abort();
    madvise(data_, size, MADV_HUGEPAGE);
  }
  ~HugeBytes() { munmap(data_, size_); }
  HugeBytes(const HugeBytes&) = delete;
  HugeBytes& operator=(const HugeBytes&) = delete;

  int8_t* data() { return data_; }
  int8_t* begin() { return data_; }
  int8_t* end() { return data_ + size_; }
  int8_t& operator[](int64_t i) { return data_[i]; }

 private:
  const int64_t size_;
  int8_t* const data_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_HUGE_BYTES_H_
