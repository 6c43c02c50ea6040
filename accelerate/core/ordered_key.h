// Order-preserving codes of sort keys.
//
// XLA sorts floats in the order -inf < ... < 0 < ... < inf < NaN, in which
// -0.0 equals 0.0 and all NaNs are equal. A code is an unsigned integer whose
// order is that one, equal for equal keys. Integers only need their sign bit
// flipped.

#ifndef ACCELERATE_CORE_ORDERED_KEY_H_
#define ACCELERATE_CORE_ORDERED_KEY_H_

#include <cstdint>
#include <type_traits>
#include <variant>

#include "xla_ffi/core/dtypes.h"

namespace xla_ffi_accelerate {

using namespace xla_ffi_kit;  // its types and threads

// Whether this thread's arithmetic takes subnormal floats for zero. XLA's
// threads are set so, and then its comparator finds them equal to 0.0. A
// handler asks, not each thread of a kernel, so that all of them agree.
inline bool SubnormalsAreZero() {
  volatile float subnormal = 1e-40f;
  return subnormal == 0.0f;
}

// Codes of b-bit integers, K = uint<b>_t.
template <typename K>
struct IntegerCode {
  using Key = K;
  static constexpr bool kHasTies = false;  // equal codes, different bits

  K flip;  // the sign bit for signed integers, else 0

  K Encode(K bits) const { return bits ^ flip; }
  K Decode(K code) const { return code ^ flip; }
};

// Codes of b-bit IEEE floats, K = uint<b>_t.
template <typename K>
struct FloatCode {
  using Key = K;
  static constexpr bool kHasTies = true;
  static constexpr K kSign = K{1} << (8 * sizeof(K) - 1);

  K infinity;      // its bits
  K min_non_zero;  // bits of the smallest float that is not equal to 0.0

  // The bits that stand for all keys equal to this one: 0.0 for every zero,
  // the NaN that JAX writes as jnp.nan for every NaN.
  K Canonical(K bits) const {
    const K magnitude = bits & static_cast<K>(~kSign);
    const K non_zero = AllBitsIf(magnitude >= min_non_zero);
    const K nan = AllBitsIf(magnitude > infinity);
    return static_cast<K>((bits & non_zero & ~nan) | (Nan() & nan));
  }
  K Encode(K bits) const { return EncodeCanonical(Canonical(bits)); }
  // The inverse of Encode for canonical bits.
  K Decode(K code) const {
    return static_cast<K>(code ^ (AllBitsIf((code & kSign) == 0) | kSign));
  }
  K ZeroCode() const { return kSign; }
  K NanCode() const { return EncodeCanonical(Nan()); }

  static K EncodeCanonical(K bits) {
    return static_cast<K>(bits ^ (AllBitsIf((bits & kSign) != 0) | kSign));
  }
  // Infinity's exponent and the first bit of the fraction.
  K Nan() const { return infinity | (infinity >> 1); }

 private:
  // Replaces a condition, which compilers turn into branches that they cannot
  // vectorize.
  static K AllBitsIf(bool is) { return static_cast<K>(-static_cast<K>(is)); }
};

// The dtypes with an order.
using KeyTypes =
    TypeList<bool, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t,
             uint32_t, uint64_t, Float16, BFloat16, float, double>;

// The code of keys of type T, one of KeyTypes. Where `subnormals_are_zero`,
// subnormal keys equal 0.0, except where XLA widens keys for its comparison to
// a type in which they are normal.
template <typename T>
constexpr auto OrderedKey(bool subnormals_are_zero) {
  using K = BitsOf<T>;
  if constexpr (std::is_integral_v<T>) {
    return IntegerCode<K>{std::is_signed_v<T> ? kSignBit<T> : K{0}};
  } else {
    constexpr int kExponentBits =
        8 * sizeof(T) - 1 - dtype_internal::Traits<T>::kFractionBits;
    constexpr bool kIsWidened = kExponentBits < 8;  // to f32
    return FloatCode<K>{kInfinityBits<T>, subnormals_are_zero && !kIsWidened
                                              ? kMinNormalBits<T>
                                              : K{1}};
  }
}

// Any OrderedKey, for kernels of keys whose type is known when they run: call
// std::visit.
using KeyCode =
    std::variant<IntegerCode<uint8_t>, IntegerCode<uint16_t>,
                 IntegerCode<uint32_t>, IntegerCode<uint64_t>,
                 FloatCode<uint16_t>, FloatCode<uint32_t>, FloatCode<uint64_t>>;

// XLA's CPU backend sorts bf16 as f32. The conversion back leaves of a NaN only
// its sign, in keys and in payload.
inline uint16_t QuietBF16Nan(uint16_t bits) {
  const bool is_nan = (bits & 0x7fff) > 0x7f80;
  const uint16_t quiet = (bits & 0x8000) | 0x7fc0;
  return is_nan ? quiet : bits;
}
inline void QuietBF16Nans(uint16_t* bits, int64_t n) {
  for (int64_t i = 0; i < n; ++i) bits[i] = QuietBF16Nan(bits[i]);
}

}  // namespace xla_ffi_accelerate

#endif  // ACCELERATE_CORE_ORDERED_KEY_H_
