// The rectified linear unit: y = max(x, 0), elementwise, of any shape.
//
// NaN stays NaN, -0.0 becomes 0.0, denormals are kept. y may be x. Both
// handlers, for CPUs and for CUDA devices, take what the keys say. The CUDA
// handler returns the error of its launch too, and may be captured in a command
// buffer.

#ifndef XLA_FFI_OPS_RELU_RELU_H_
#define XLA_FFI_OPS_RELU_RELU_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "xla_ffi/core/call.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit::relu {

inline constexpr Operand x{"x", SignedTypes(), "(...)"};
inline constexpr Result y{"y", x};
inline constexpr char kName[] = "xla_ffi_kit.relu";
using ReluCall = Call<kName, x, y>;

// The pattern of -infinity, as an integer of the float's size.
template <typename T>
inline constexpr auto kMinusInfinity =
    static_cast<std::make_signed_t<BitsOf<T>>>(kSignBit<T> | kInfinityBits<T>);

// One element. Floats are compared as signed integers: the patterns from -0.0
// to -infinity are the lowest ones, above them come the NaNs with the sign set,
// which stay. One comparison, no branch, whatever the thread does with
// denormals.
template <typename T>
XLA_FFI_KIT_HOST_DEVICE inline T ReluElement(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value > 0 ? value : T{0};
  } else {
    std::make_signed_t<BitsOf<T>> bits;
    std::memcpy(&bits, &value, sizeof(bits));
    bits = bits <= kMinusInfinity<T> ? 0 : bits;
    std::memcpy(static_cast<void*>(&value), &bits, sizeof(bits));
    return value;
  }
}

}  // namespace xla_ffi_kit::relu

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitReluCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitReluCuda);

#endif  // XLA_FFI_OPS_RELU_RELU_H_
