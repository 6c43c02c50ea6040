// Packed keys: what the vectorised sort sorts in an operand's place.
//
// A packed key holds the code of a key in its upper bits and, where the order
// of equal keys matters, the element's index in its lower bits: then no two
// are equal, and any sort of them is the stable sort of the keys.

#ifndef XLA_FFI_OPS_SORT_PACK_H_
#define XLA_FFI_OPS_SORT_PACK_H_

#include <cstdint>

#include "xla_ffi/ops/sort/key_code.h"
#include "xla_ffi/ops/sort/vector_sort.h"

namespace xla_ffi_kit {

// How a dtype's bits are ordered.
enum class KeyKind { kUnsigned, kSigned, kF16, kBF16, kF32, kF64 };

// One key operand: `width` bytes an element, 1, 2, 4 or 8.
struct KeyColumn {
  KeyKind kind;
  int64_t width;
  const void* data;
  bool subnormals_are_zero;
};

// Calls fn(typed data, code) for the column's type.
template <typename Fn>
auto VisitColumn(const KeyColumn& column, const Fn& fn) {
  const auto integers = [&](auto zero) {
    using K = decltype(zero);
    constexpr K kSign = static_cast<K>(K{1} << (8 * sizeof(K) - 1));
    const K flip = column.kind == KeyKind::kSigned ? kSign : K{0};
    return fn(static_cast<const K*>(column.data), IntegerCode<K>{flip});
  };
  const auto floats = [&](auto infinity, auto min_normal) {
    using K = decltype(infinity);
    // The comparator widens f16 to f32, where its subnormals are normal.
    const bool is_flushed =
        column.kind != KeyKind::kF16 && column.subnormals_are_zero;
    return fn(static_cast<const K*>(column.data),
              FloatCode<K>{infinity, is_flushed ? min_normal : K{1}});
  };
  switch (column.kind) {
    case KeyKind::kF16:
      return floats(uint16_t{0x7c00}, uint16_t{0x0400});
    case KeyKind::kBF16:
      return floats(uint16_t{0x7f80}, uint16_t{0x0080});
    case KeyKind::kF32:
      return floats(uint32_t{0x7f800000}, uint32_t{0x00800000});
    case KeyKind::kF64:
      return floats(uint64_t{0x7ff0} << 48, uint64_t{0x0010} << 48);
    default:
      break;
  }
  switch (column.width) {
    case 1:
      return integers(uint8_t{0});
    case 2:
      return integers(uint16_t{0});
    case 4:
      return integers(uint32_t{0});
    default:
      return integers(uint64_t{0});
  }
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

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_SORT_PACK_H_
