// Packed keys: what the vectorized sort sorts in an operand's place.
//
// A packed key holds the code of a key in its upper bits and, where the order
// of equal keys matters, the element's index in its lower bits: then no two
// are equal, and any sort of them is the stable sort of the keys.

#ifndef ACCELERATE_CORE_PACKED_KEY_H_
#define ACCELERATE_CORE_PACKED_KEY_H_

#include <cstdint>

namespace xla_ffi_accelerate {

// 128 bits, compared as one unsigned number. Highway's layout: `lo` first.
struct alignas(16) Pair64 {
  uint64_t lo;
  uint64_t hi;
};

inline bool operator<(const Pair64& a, const Pair64& b) {
  return a.hi != b.hi ? a.hi < b.hi : a.lo < b.lo;
}

// A code and an index in one number. Up to 32 bits each in 64 bits, up to 64
// each in 128.
template <typename Packed>
struct Packing;

template <>
struct Packing<uint64_t> {
  static uint64_t Join(uint64_t code, uint64_t index) {
    return code << 32 | index;
  }
  static uint64_t Code(uint64_t packed) { return packed >> 32; }
  static uint64_t Index(uint64_t packed) { return packed & 0xffffffff; }
};

template <>
struct Packing<Pair64> {
  static Pair64 Join(uint64_t code, uint64_t index) { return {index, code}; }
  static uint64_t Code(Pair64 packed) { return packed.hi; }
  static uint64_t Index(Pair64 packed) { return packed.lo; }
};

}  // namespace xla_ffi_accelerate

#endif  // ACCELERATE_CORE_PACKED_KEY_H_
