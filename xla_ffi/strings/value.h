// kit::value and kit::where: what a string says where its numbers may be those
// of derivatives, which numbers.h has; on CPUs and on CUDA devices.

#ifndef XLA_FFI_STRINGS_VALUE_H_
#define XLA_FFI_STRINGS_VALUE_H_

#include "xla_ffi/core/host_device.h"
#include "xla_ffi/strings/half.h"

namespace kit {

// The bytes of the CPU's vectors.
#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <typename X>
char TestNumber(typename X::KitScalar*);
template <typename X>
long TestNumber(...);  // NOLINT(runtime/int): another size than char
// Whether it is a number of numbers.h.
template <typename X>
inline constexpr bool kIsNumber = sizeof(TestNumber<X>(nullptr)) == 1;
// The type of a number's value, which is no class of the kit: what a string
// asks instead of T or A, as in std::is_same_v<kit::Plain<A>, double>.
template <typename X, bool kIsOne = kIsNumber<X>>
struct PlainType {
  using type = X;
};
template <typename X>
struct PlainType<X, true> {
  using type = typename PlainType<typename X::KitScalar>::type;
};
template <typename X>
using Plain = typename PlainType<X>::type;

template <bool kCondition>
struct EnableIf {};
template <>
struct EnableIf<true> {
  using type = int;
};

// A number without its derivative, as for an index: int(kit::value(x)).
template <typename T, typename EnableIf<!kIsNumber<T>>::type = 0>
XLA_FFI_KIT_HOST_DEVICE Accumulate<T> value(const T& x) {
  return x;
}

template <typename T, typename U>
inline constexpr bool kAreOneType = false;
template <typename T>
inline constexpr bool kAreOneType<T, T> = true;

// `a` if the condition holds, else `b`; both are computed.
template <typename T, typename U,
          typename EnableIf<!kIsNumber<T> && !kIsNumber<U>>::type = 0>
XLA_FFI_KIT_HOST_DEVICE auto where(bool condition, const T& a, const U& b) {
  if constexpr (kAreOneType<T, U>) {
    return condition ? a : b;
  } else {
    // A 16-bit float beside an integer would become an integer.
    const Accumulate<T>& x = a;
    const Accumulate<U>& y = b;
    return condition ? x : y;
  }
}

}  // namespace kit

#endif  // XLA_FFI_STRINGS_VALUE_H_
