// The operations of cumulative.h on two integers.

#ifndef XLA_FFI_OPS_CUMULATIVE_CUMULATIVE_OPS_H_
#define XLA_FFI_OPS_CUMULATIVE_CUMULATIVE_OPS_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace xla_ffi_kit {

// The type that the integer T is added and multiplied in: at least as wide as
// int, and unsigned, so that it wraps.
template <typename T>
using Wrapping = std::common_type_t<std::make_unsigned_t<T>, unsigned>;

template <typename T>
struct Add {
  using Wide = Wrapping<T>;
  static constexpr T kIdentity = 0;
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
};

template <typename T>
struct Mul {
  using Wide = Wrapping<T>;
  static constexpr T kIdentity = 1;
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
  }
};

template <typename T>
struct Max {
  static constexpr T kIdentity = std::numeric_limits<T>::lowest();
  static T Apply(T a, T b) { return std::max(a, b); }
};

template <typename T>
struct Min {
  static constexpr T kIdentity = std::numeric_limits<T>::max();
  static T Apply(T a, T b) { return std::min(a, b); }
};

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_CUMULATIVE_CUMULATIVE_OPS_H_
