// max(x, 0) of one element, on the CPU and on a GPU.

#ifndef XLA_FFI_OPS_RELU_RELU_ELEMENT_H_
#define XLA_FFI_OPS_RELU_RELU_ELEMENT_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {
// The pattern of -infinity, as an integer of the float's size.
template <typename T>
inline constexpr auto kMinusInfinity =
    static_cast<std::make_signed_t<BitsOf<T>>>(kSignBit<T> | kInfinityBits<T>);

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
    std::make_signed_t<BitsOf<T>> bits;
    std::memcpy(&bits, &x, sizeof(bits));
    bits = bits <= kMinusInfinity<T> ? 0 : bits;
    std::memcpy(static_cast<void*>(&x), &bits, sizeof(bits));
    return x;
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RELU_RELU_ELEMENT_H_
