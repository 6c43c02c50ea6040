// Launches of kernels, and what became of them.

#ifndef XLA_FFI_CORE_CUDA_LAUNCH_H_
#define XLA_FFI_CORE_CUDA_LAUNCH_H_

#include <utility>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/elementwise.h"

namespace xla_ffi_kit {

#ifdef __CUDACC__

// Launches `kernel` on `stream`: no allocation, no synchronisation, nothing on
// another stream, so that a CUDA graph can capture it. Returns this launch's
// error, which does not stay behind for whoever asks for the last one next.
template <typename... Parameters, typename... Args>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape,
                   cudaStream_t stream, Args&&... args) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  const cudaError_t status =
      cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// Launches Op over `count` elements in packs of N; nothing for no elements.
template <int N, typename Op>
cudaError_t LaunchElementwise(int64_t count, const Op& op,
                              cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  return Launch(ElementwiseKernel<N, Op>, PlanElementwise(count, N), stream,
                count, op);
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_LAUNCH_H_
