// The rectified linear unit on the CPU.

#ifndef XLA_FFI_OPS_RELU_RELU_H_
#define XLA_FFI_OPS_RELU_RELU_H_

#include <cstdint>

namespace xla_ffi_kit {

// y[i] = max(x[i], 0) for 0 <= i < count. NaN stays NaN, -0.0 becomes 0.0,
// denormals are kept, as jnp.maximum(x, 0) does where denormals count.
// `y` may be `x`; otherwise they must not overlap. Any alignment. Defined for
// T = Float8E5M2, Float16, BFloat16, float, double and int8_t ... int64_t.
template <typename T>
void Relu(const T* x, int64_t count, T* y);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RELU_RELU_H_
