// Launches of kernels, and what became of them.

#ifndef XLA_FFI_CORE_CUDA_LAUNCH_H_
#define XLA_FFI_CORE_CUDA_LAUNCH_H_

#include <utility>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/rows.h"

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

// The shared memory that a block on the current device may have.
inline cudaError_t MaxSharedBytes(int64_t* bytes) {
  int device = 0, limit = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(
        &limit, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  // What the kernel itself uses.
  *bytes = limit - 32 * static_cast<int64_t>(sizeof(TwoSums));
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// Launches a RowKernel over args.rows >= 1 rows that are too long for
// registers: it finds its row in shared memory if `RowThread::shared` is set.
template <typename Wide, typename Args>
cudaError_t LaunchWideRows(const Args& args, int64_t packs,
                           int64_t shared_bytes, cudaStream_t stream) {
  int64_t limit = 0;
  cudaError_t status = MaxSharedBytes(&limit);
  if (status != cudaSuccess) return status;
  const RowPlan plan = PlanRows(args.rows, packs, shared_bytes, limit);
  if (plan.path == RowPath::kShared) {
    status = cudaFuncSetAttribute(RowKernel<Wide>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(plan.shape.shared_bytes));
    if (status != cudaSuccess) (void)cudaGetLastError();
    if (status != cudaSuccess) return status;
  }
  return Launch(RowKernel<Wide>, plan.shape, stream, args, plan.threads_per_row,
                plan.path == RowPath::kShared);
}

// The same over rows of any length: Registers where they fit, else Wide.
template <typename Registers, typename Wide, typename Args>
cudaError_t LaunchRows(const Args& args, int64_t packs, int64_t shared_bytes,
                       cudaStream_t stream) {
  if (!RowsFitRegisters(packs)) {
    return LaunchWideRows<Wide>(args, packs, shared_bytes, stream);
  }
  // Asking the device costs a microsecond: only long rows need to.
  const RowPlan plan = PlanRows(args.rows, packs, 0, 0);
  return Launch(RowKernel<Registers>, plan.shape, stream, args,
                plan.threads_per_row, false);
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_LAUNCH_H_
