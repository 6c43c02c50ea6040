// The 16- and 8-bit floating-point types, as storage: C++17 has no names for
// them.
//
// Arithmetic happens in float; these types only convert. The conversions are
// integer code, so that they need no F16C at compile time, round to nearest
// even whatever the rounding mode, and keep denormals on threads where the CPU
// flushes them (XLA's worker threads do: FTZ and DAZ are set). A GPU has
// instructions that do the same.

#ifndef XLA_FFI_CORE_HALF_H_
#define XLA_FFI_CORE_HALF_H_

#include <cstdint>
#include <cstring>

#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {
namespace half_internal {

XLA_FFI_KIT_HOST_DEVICE inline uint32_t FloatBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

XLA_FFI_KIT_HOST_DEVICE inline float BitsFloat(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

XLA_FFI_KIT_HOST_DEVICE inline uint16_t FloatToBFloat16Bits(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint16_t rounded;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  const uint32_t bits = FloatBits(value);
  if ((bits & 0x7fffffff) > 0x7f800000) {
    // A NaN whose payload sits in the low half would round to infinity: set
    // the quiet bit instead of rounding.
    return static_cast<uint16_t>((bits >> 16) | 0x0040);
  }
  const uint32_t is_odd = (bits >> 16) & 1;
  return static_cast<uint16_t>((bits + 0x7fff + is_odd) >> 16);
#endif
}

XLA_FFI_KIT_HOST_DEVICE inline uint16_t FloatToFloat16Bits(float value) {
#ifdef __CUDA_ARCH__
  uint16_t rounded;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(value));
  return rounded;
#else
  const uint32_t bits = FloatBits(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) {  // NaN: quiet, upper payload kept
    half = 0x7e00 | ((magnitude >> 13) & 0x03ff);
  } else if (magnitude >= 0x477ff000) {  // 65520 and above round to infinity
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // normal: 2^-14 and above
    const uint32_t rebiased = magnitude - (uint32_t{127 - 15} << 23);
    half = (rebiased + 0x0fff + ((rebiased >> 13) & 1)) >> 13;
  } else if (magnitude <= 0x33000000) {  // 2^-25 is a tie, and zero is even
    half = 0;
  } else {  // subnormal: a multiple of 2^-24
    const uint32_t shift = 126 - (magnitude >> 23);
    const uint32_t mantissa = (magnitude & 0x007fffff) | 0x00800000;
    const uint32_t remainder = mantissa & ((uint32_t{1} << shift) - 1);
    const uint32_t tie = uint32_t{1} << (shift - 1);
    half = mantissa >> shift;
    if (remainder > tie || (remainder == tie && (half & 1) != 0)) ++half;
  }
  return static_cast<uint16_t>(sign | half);
#endif
}

XLA_FFI_KIT_HOST_DEVICE inline float Float16BitsToFloat(uint16_t half) {
#ifdef __CUDA_ARCH__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
  return value;
#else
  const uint32_t sign = (uint32_t{half} & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 0x1f;
  const uint32_t mantissa = half & 0x03ff;
  if (exponent == 0x1f) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000 : 0;
    return BitsFloat(sign | 0x7f800000 | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // Zero or subnormal; the product is exact, and a normal float.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return BitsFloat(sign | FloatBits(magnitude));
  }
  return BitsFloat(sign | ((exponent + (127 - 15)) << 23) | (mantissa << 13));
#endif
}

}  // namespace half_internal

// bfloat16: the upper half of a float (XLA's bf16).
class BFloat16 {
 public:
  BFloat16() = default;
  XLA_FFI_KIT_HOST_DEVICE explicit BFloat16(float value)
      : bits_(half_internal::FloatToBFloat16Bits(value)) {}

  XLA_FFI_KIT_HOST_DEVICE static BFloat16 FromBits(uint16_t bits) {
    BFloat16 result;
    result.bits_ = bits;
    return result;
  }

  XLA_FFI_KIT_HOST_DEVICE explicit operator float() const {
    return half_internal::BitsFloat(uint32_t{bits_} << 16);
  }
  XLA_FFI_KIT_HOST_DEVICE uint16_t bits() const { return bits_; }

 private:
  uint16_t bits_;
};

// IEEE 754 binary16 (XLA's f16).
class Float16 {
 public:
  Float16() = default;
  XLA_FFI_KIT_HOST_DEVICE explicit Float16(float value)
      : bits_(half_internal::FloatToFloat16Bits(value)) {}

  XLA_FFI_KIT_HOST_DEVICE static Float16 FromBits(uint16_t bits) {
    Float16 result;
    result.bits_ = bits;
    return result;
  }

  XLA_FFI_KIT_HOST_DEVICE explicit operator float() const {
    return half_internal::Float16BitsToFloat(bits_);
  }
  XLA_FFI_KIT_HOST_DEVICE uint16_t bits() const { return bits_; }

 private:
  uint16_t bits_;
};

// OCP's 8-bit E5M2 (XLA's f8e5m2): the upper half of a Float16.
class Float8E5M2 {
 public:
  Float8E5M2() = default;

  XLA_FFI_KIT_HOST_DEVICE static Float8E5M2 FromBits(uint8_t bits) {
    Float8E5M2 result;
    result.bits_ = bits;
    return result;
  }

  XLA_FFI_KIT_HOST_DEVICE explicit operator float() const {
    return half_internal::Float16BitsToFloat(static_cast<uint16_t>(bits_ << 8));
  }
  XLA_FFI_KIT_HOST_DEVICE uint8_t bits() const { return bits_; }

 private:
  uint8_t bits_;
};

// They alias XLA's buffers, so their layout is a contract.
static_assert(sizeof(BFloat16) == 2 && alignof(BFloat16) == 2);
static_assert(sizeof(Float16) == 2 && alignof(Float16) == 2);
static_assert(sizeof(Float8E5M2) == 1);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_HALF_H_
