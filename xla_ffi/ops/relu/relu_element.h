// max(x, 0) of one element, on the CPU and on a GPU.

#ifndef XLA_FFI_OPS_RELU_RELU_ELEMENT_H_
#define XLA_FFI_OPS_RELU_RELU_ELEMENT_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "xla_ffi/core/half.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {
namespace relu_internal {

// The integer type of a float's size, and the pattern of -infinity.
template <typename T>
struct Bits;
template <>
struct Bits<Float16> {
  using type = int16_t;
  static constexpr uint16_t kMinusInfinity = 0xfc00;
};
template <>
struct Bits<BFloat16> {
  using type = int16_t;
  static constexpr uint16_t kMinusInfinity = 0xff80;
};
template <>
struct Bits<float> {
  using type = int32_t;
  static constexpr uint32_t kMinusInfinity = 0xff800000;
};
template <>
struct Bits<double> {
  using type = int64_t;
  static constexpr uint64_t kMinusInfinity = 0xfff0000000000000;
};

}  // namespace relu_internal

// NaN stays NaN, -0.0 becomes 0.0, denormals are kept.
//
// Floats are compared as signed integers: the patterns from -0.0 to -infinity
// are the lowest ones, above them come the NaNs with the sign set, which stay.
// One comparison, no branch, whatever the thread does with denormals.
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline T ReluElement(T x) {
  if constexpr (std::is_integral_v<T>) {
    return x > 0 ? x : T{0};
  } else {
    using Bits = relu_internal::Bits<T>;
    typename Bits::type bits;
    std::memcpy(&bits, &x, sizeof(bits));
    bits = bits <= static_cast<typename Bits::type>(Bits::kMinusInfinity)
               ? 0
               : bits;
    std::memcpy(static_cast<void*>(&x), &bits, sizeof(bits));
    return x;
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RELU_RELU_ELEMENT_H_
