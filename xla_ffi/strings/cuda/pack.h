// 16 bytes, which a thread reads and writes at a time, in its registers.

#ifndef XLA_FFI_STRINGS_CUDA_PACK_H_
#define XLA_FFI_STRINGS_CUDA_PACK_H_

#include "xla_ffi/strings/cuda/standard.h"

namespace kit {

// Elements of T in four registers. An array would be in memory, since the
// compiler does not know which element a loop reads: Get() and Set() choose
// among the registers instead.
template <typename T>
class Pack {
 public:
  static constexpr int kSize = 16 / static_cast<int>(sizeof(T));

  static Pack Load(const T* aligned) {
    Pack pack;
    pack.words_ = *reinterpret_cast<const uint4*>(aligned);
    return pack;
  }
  void Store(T* aligned) const { *reinterpret_cast<uint4*>(aligned) = words_; }

  T Get(int i) const {
    T value;
    if constexpr (sizeof(T) == 8) {
      const unsigned both[2] = {i == 0 ? words_.x : words_.z,
                                i == 0 ? words_.y : words_.w};
      std::memcpy(&value, both, sizeof(T));
    } else {
      const int byte = i * static_cast<int>(sizeof(T));
      const unsigned low = byte & 4 ? words_.y : words_.x;
      const unsigned high = byte & 4 ? words_.w : words_.z;
      const unsigned word = (byte & 8 ? high : low) >> 8 * (byte & 3);
      std::memcpy(&value, &word, sizeof(T));
    }
    return value;
  }

  void Set(int i, T value) {
    if constexpr (sizeof(T) == 8) {
      unsigned both[2];
      std::memcpy(both, &value, sizeof(T));
      if (i == 0) {
        words_.x = both[0];
        words_.y = both[1];
      } else {
        words_.z = both[0];
        words_.w = both[1];
      }
    } else {
      unsigned bits = 0;
      std::memcpy(&bits, &value, sizeof(T));
      constexpr unsigned kAll = sizeof(T) == 4   ? 0xffffffffu
                                : sizeof(T) == 2 ? 0xffffu
                                                 : 0xffu;
      const int byte = i * static_cast<int>(sizeof(T));
      const int shift = 8 * (byte & 3);
      const unsigned kept = ~(kAll << shift);
      bits <<= shift;
      if (byte >> 2 == 0) words_.x = (words_.x & kept) | bits;
      if (byte >> 2 == 1) words_.y = (words_.y & kept) | bits;
      if (byte >> 2 == 2) words_.z = (words_.z & kept) | bits;
      if (byte >> 2 == 3) words_.w = (words_.w & kept) | bits;
    }
  }

 private:
  uint4 words_ = {0, 0, 0, 0};
};

// The beginning of the 16 bytes that an element is in.
template <typename T>
T* PackOf(T* element) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(element) &
                              ~static_cast<uintptr_t>(15));
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_CUDA_PACK_H_
