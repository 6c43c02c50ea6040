// The sum of two elements, on the CPU and on a GPU.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_ELEMENT_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_ELEMENT_H_

#include <type_traits>

#include "xla_ffi/core/half.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// Integers wrap around; 16-bit floats are added in float and rounded once.
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline T AddElements(T left, T right) {
  if constexpr (std::is_integral_v<T>) {
    // Signed overflow is undefined in C++, and wraps in XLA.
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(left) + static_cast<U>(right));
  } else if constexpr (std::is_same_v<T, Float16> ||
                       std::is_same_v<T, BFloat16>) {
    return T(static_cast<float>(left) + static_cast<float>(right));
  } else {
    return left + right;
  }
}

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_ELEMENT_H_
