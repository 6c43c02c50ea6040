// The operations of cumulative.h on two codes, as which elements are scanned.

#ifndef ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_OPS_H_
#define ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_OPS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "xla_ffi/core/dtypes.h"

namespace xla_ffi_accelerate::cumulative {

// The type that the integer T is added and multiplied in: at least as wide as
// int, and unsigned, so that it wraps.
template <typename T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

// Integers are their own codes.
template <typename T>
struct OfIntegers {
  static constexpr bool kIsOfFloats = false;
  static T Encode(T x) { return x; }
  static T Decode(T code) { return code; }
};

template <typename T>
struct Add : OfIntegers<T> {
  using Wide = Wrapping<T>;
  static constexpr T kIdentity = 0;
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
};

template <typename T>
struct Mul : OfIntegers<T> {
  using Wide = Wrapping<T>;
  static constexpr T kIdentity = 1;
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
};

// The maximum or minimum of integers of K's width, signed or not. K is signed,
// and the codes have the integers' order, reversed for a minimum.
template <typename K>
class IntegerExtreme {
 public:
  static constexpr bool kIsOfFloats = false;
  static constexpr K kIdentity = std::numeric_limits<K>::lowest();

  IntegerExtreme(bool is_min, bool is_signed)
      : flip_((is_min ? K{-1} : K{0}) ^ (is_signed ? K{0} : kIdentity)) {}

  K Encode(K bits) const { return bits ^ flip_; }
  K Decode(K code) const { return code ^ flip_; }
  static K Apply(K a, K b) { return std::max(a, b); }

 private:
  K flip_;
};

// The maximum or minimum of floats as XLA's CPU backend has it: -0.0 < 0.0, a
// subnormal is the zero of its sign where `subnormals_are_zero`, and what meets
// a NaN is one. The codes, as wide as the floats' bits K (a signed integer),
// have the order of the floats, reversed for a minimum, with NaN above all.
template <typename K>
class FloatExtreme {
 public:
  static constexpr bool kIsOfFloats = true;
  static constexpr K kIdentity = std::numeric_limits<K>::lowest();

  // T: a float of that width.
  template <typename T>
  static FloatExtreme Of(bool is_min, bool subnormals_are_zero) {
    FloatExtreme op;
    // XLA widens f16 to f32, in which its subnormals are normal.
    op.min_kept_ = subnormals_are_zero && !std::is_same_v<T, Float16>
                       ? static_cast<K>(kMinNormalBits<T>)
                       : K{0};
    op.infinity_ = static_cast<K>(kInfinityBits<T>);
    op.flip_ = is_min ? kSign : K{0};
    return op;
  }

  K Encode(K bits) const {
    const K sign = static_cast<K>((bits ^ flip_) >> kTopBit);  // 0 or -1
    K magnitude = bits & kMagnitude;
    magnitude = magnitude < min_kept_ ? K{0} : magnitude;
    const K code = magnitude ^ sign;
    return magnitude > infinity_ ? Nan() : code;
  }
  K Decode(K code) const {
    const K sign = static_cast<K>(code >> kTopBit);
    const K bits =
        static_cast<K>((code ^ sign) | (static_cast<K>(sign ^ flip_) & kSign));
    return code == Nan() ? code : bits;  // not of the order's sign
  }
  static K Apply(K a, K b) { return std::max(a, b); }

 private:
  static constexpr int kTopBit = 8 * sizeof(K) - 1;
  static constexpr K kSign = std::numeric_limits<K>::lowest();
  static constexpr K kMagnitude = std::numeric_limits<K>::max();

  // The code and bits of the NaN that JAX writes as jnp.nan.
  K Nan() const { return static_cast<K>(infinity_ | (infinity_ >> 1)); }

  K min_kept_, infinity_, flip_;
};

}  // namespace xla_ffi_accelerate::cumulative

#endif  // ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_OPS_H_
