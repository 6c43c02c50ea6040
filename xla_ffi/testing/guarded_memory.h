// Memory of exactly as many bytes as a buffer has, which notices writes beside
// it.

#ifndef XLA_FFI_TESTING_GUARDED_MEMORY_H_
#define XLA_FFI_TESTING_GUARDED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#ifndef __has_feature  // gcc has no such macro
#define __has_feature(feature) 0
#endif

namespace xla_ffi_kit::testing {

class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes)
      : bytes_(bytes),
        all_(static_cast<unsigned char*>(std::malloc(bytes + 2 * kGuard))) {
    if (all_ == nullptr) std::abort();
    std::memset(all_.get(), kPattern, kGuard);
    std::memset(data() + bytes, kPattern, kGuard);
  }

  // Aligned like malloc()'s memory; not null for 0 bytes.
  unsigned char* data() const { return all_.get() + kGuard; }
  size_t size() const { return bytes_; }
  std::string_view text() const {
    return {reinterpret_cast<const char*>(data()), bytes_};
  }

  // Whether the bytes on both sides are as they were.
  bool IsIntact() const {
    for (size_t i = 0; i < kGuard; ++i) {
      if (all_.get()[i] != kPattern || data()[bytes_ + i] != kPattern) {
        return false;
      }
    }
    return true;
  }

 private:
  // With AddressSanitizer the allocation has to end where the buffer ends: it
  // then finds reads too, and where they are.
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
  static constexpr size_t kGuard = 0;
#else
  // Wider than a vector, so that a kernel that rounds up lands here.
  static constexpr size_t kGuard = 64;
#endif
  static constexpr unsigned char kPattern = 0xdb;

  struct Free {
    void operator()(void* data) const { std::free(data); }
  };

  size_t bytes_;
  std::unique_ptr<unsigned char, Free> all_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_GUARDED_MEMORY_H_
