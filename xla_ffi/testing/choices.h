// Where the tests' random numbers come from: a seed, or the bytes of a fuzzing
// engine, and after those numbers that the bytes seed.

#ifndef XLA_FFI_TESTING_CHOICES_H_
#define XLA_FFI_TESTING_CHOICES_H_

#include <cstddef>
#include <cstdint>
#include <random>

namespace xla_ffi_kit::testing {

class Choices {
 public:
  explicit Choices(uint32_t seed) : random_(seed) {}
  Choices(const uint8_t* data, size_t size)
      : random_(Sum(data, size)), next_(data), left_(size) {}

  uint8_t Byte() {
    if (left_ == 0) return static_cast<uint8_t>(random_() >> 8);
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

 private:
  static uint32_t Sum(const uint8_t* data, size_t size) {  // FNV-1a
    uint32_t sum = 2166136261;
    for (size_t i = 0; i < size; ++i) sum = (sum ^ data[i]) * 16777619;
    return sum;
  }

  std::minstd_rand random_;
  const uint8_t* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace xla_ffi_kit::testing

#endif  // XLA_FFI_TESTING_CHOICES_H_
