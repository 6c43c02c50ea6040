// Where the tests' random numbers come from: a seed, or the bytes of a fuzzing
// engine.

#ifndef XLA_FFI_TESTING_CHOICES_H_
#define XLA_FFI_TESTING_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>

namespace xla_ffi_kit::testing {

class Choices {
 public:
  explicit Choices(uint32_t seed) : random_(seed) {}
  // After the last byte come zeros.
  Choices(const uint8_t* data, size_t size) : next_(data), left_(size) {}

  uint8_t Byte() {
    if (next_ == nullptr) return static_cast<uint8_t>(random_() >> 8);
    if (left_ == 0) return 0;
    --left_;
    return *next_++;
  }

  uint64_t Bytes8() {
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | Byte();
    return value;
  }

  // 0 to n - 1.
  int64_t Below(int64_t n) {
    const uint64_t value = n <= 256 ? Byte() : Bytes8();
    return static_cast<int64_t>(value % static_cast<uint64_t>(n));
  }

  std::string Text(size_t size) {
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(Byte());
    return text;
  }

 private:
  std::minstd_rand random_;
  const uint8_t* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CHOICES_H_
