// The bytes of a fuzzing engine, read as numbers. Never runs out: after the
// last byte come zeros.

#ifndef XLA_FFI_TESTING_FUZZ_FUZZ_INPUT_H_
#define XLA_FFI_TESTING_FUZZ_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace xla_ffi_kit::testing {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : next_(data), left_(size) {}

  uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return *next_++;
  }

  // 0 to n - 1.
  int64_t Below(int64_t n) { return Byte() % n; }

  uint64_t Bytes8() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
    return value;
  }

  std::string Text(size_t size) {
    std::string text;
    while (text.size() < size && left_ > 0) {
      text.push_back(static_cast<char>(Byte()));
    }
    return text;
  }

 private:
  const uint8_t* next_;
  size_t left_;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_FUZZ_FUZZ_INPUT_H_
