// The numbers of a pack of the full width, in the type they are computed in.
//
// A GPU converts two 16-bit numbers at a time. Code that goes through single
// ones takes twice the instructions, and registers for each half.

#ifndef XLA_FFI_CORE_CUDA_PACK_NUMBERS_H_
#define XLA_FFI_CORE_CUDA_PACK_NUMBERS_H_

#include <cstdint>
#include <type_traits>

#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

template <typename T>
using PackNumbers = Pack<AccumulationType<T>, kPackWidth<T>>;

#ifdef __CUDA_ARCH__

namespace pack_internal {

// The two halves of `bits`.
template <typename T>
__device__ inline void WidenTwo(uint32_t bits, float* two) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    two[0] = __uint_as_float(bits << 16);
    two[1] = __uint_as_float(bits & 0xffff0000U);
  } else {
    asm("{\n.reg .f16 low, high;\n"
        "mov.b32 {low, high}, %2;\n"
        "cvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;\n}"
        : "=f"(two[0]), "=f"(two[1])
        : "r"(bits));
  }
}

template <typename T>
__device__ inline uint32_t RoundTwo(const float* two) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(bits)
        : "f"(two[1]), "f"(two[0]));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(two[1]), "f"(two[0]));
  }
  return bits;
}

}  // namespace pack_internal

#endif  // __CUDA_ARCH__

template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline PackNumbers<T> Widened(const PackBits& bits) {
  PackNumbers<T> wide;
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    pack_internal::WidenTwo<T>(bits.x, wide.values);
    pack_internal::WidenTwo<T>(bits.y, wide.values + 2);
    pack_internal::WidenTwo<T>(bits.z, wide.values + 4);
    pack_internal::WidenTwo<T>(bits.w, wide.values + 6);
    return wide;
  }
#endif
  const auto values = ToPack<T>(bits);
  for (int i = 0; i < kPackWidth<T>; ++i) {
    wide.values[i] = static_cast<AccumulationType<T>>(values.values[i]);
  }
  return wide;
}

// Rounds to nearest even.
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline PackBits Rounded(const PackNumbers<T>& wide) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(T) == 2) {
    return {pack_internal::RoundTwo<T>(wide.values),
            pack_internal::RoundTwo<T>(wide.values + 2),
            pack_internal::RoundTwo<T>(wide.values + 4),
            pack_internal::RoundTwo<T>(wide.values + 6)};
  }
#endif
  Pack<T, kPackWidth<T>> values;
  for (int i = 0; i < kPackWidth<T>; ++i) {
    values.values[i] = static_cast<T>(wide.values[i]);
  }
  return ToBits(values);
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_PACK_NUMBERS_H_
