// The rectified linear unit on CUDA devices.

#ifndef XLA_FFI_OPS_RELU_RELU_CUDA_H_
#define XLA_FFI_OPS_RELU_RELU_CUDA_H_

#include <cstdint>

#include "cuda_runtime.h"

namespace xla_ffi_kit {

// Launches y[i] = max(x[i], 0) for 0 <= i < count on `stream`, as Relu() in
// relu.h: same types, `y` may be `x`, any alignment. Launches nothing for
// count = 0; returns the launch's error.
template <typename T>
cudaError_t ReluCuda(const T* x, int64_t count, T* y, cudaStream_t stream);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_RELU_RELU_CUDA_H_
