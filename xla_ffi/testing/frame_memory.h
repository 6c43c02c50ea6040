// The memory of a call's arrays.

#ifndef XLA_FFI_TESTING_FRAME_MEMORY_H_
#define XLA_FFI_TESTING_FRAME_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "xla_ffi/testing/call_frame.h"

#ifndef __has_feature  // gcc has no such macro
#define __has_feature(feature) 0
#endif

namespace xla_ffi_kit::testing {

// Memory of exactly as many bytes as a buffer has, which notices writes beside
// it.
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

// An array's elements, and its bytes: 0 if a product of its dimensions does not
// fit 64 bits.
int64_t CountOf(const CallFrame::Buffer& buffer);
size_t BytesOf(const CallFrame::Buffer& buffer);

class FrameMemory {
 public:
  // Gives each array of the call that has elements memory of its own: operands
  // begin as random numbers, integers from 0 to 63 or finite floats, results as
  // zeros. An array of more than `most_bytes` gets no memory.
  explicit FrameMemory(CallFrame& frame, size_t most_bytes = size_t{64} << 20);

  // Call it after changing operands: what they are now is what must stay.
  void Keep();
  // Names a write beside an array, or into an operand, since the last Keep();
  // empty if there was none.
  std::string Violation() const;
  // The bytes of all results.
  std::string Results() const;

 private:
  std::vector<GuardedMemory> memory_;  // of operands, then of results
  size_t num_operands_ = 0;            // with memory
  std::vector<std::string> operands_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FRAME_MEMORY_H_
