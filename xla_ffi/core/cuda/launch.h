// Kernel launch helpers; each returns the launch's cudaError_t.

#ifndef XLA_FFI_CORE_CUDA_LAUNCH_H_
#define XLA_FFI_CORE_CUDA_LAUNCH_H_

#include <utility>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/rows.h"

namespace xla_ffi_kit {

#ifdef __CUDACC__

// `attribute` is the config's own, and lives as long.
inline cudaLaunchConfig_t MakeConfig(const LaunchShape& shape,
                                     cudaStream_t stream,
                                     cudaLaunchAttribute* attribute) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  if (shape.cluster > 1) {
    attribute->id = cudaLaunchAttributeClusterDimension;
    attribute->val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    attribute->val.clusterDim.y = attribute->val.clusterDim.z = 1;
    config.attrs = attribute;
    config.numAttrs = 1;
  }
  return config;
}

// Launches `kernel` on `stream`: no allocation, no synchronization, nothing on
// another stream, so that a CUDA graph can capture it. Returns this launch's
// error, which does not stay behind for whoever asks for the last one next.
template <typename... Parameters, typename... Args>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape,
                   cudaStream_t stream, Args&&... args) {
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = MakeConfig(shape, stream, &attribute);
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

// What the current device allows `kernel`, a RowKernel. Clusters want a device
// that has them, and code that was compiled for one.
template <typename Kernel>
cudaError_t GetRowLimits(Kernel* kernel, RowLimits* limits) {
  int device = 0, shared = 0;
  cudaFuncAttributes of_kernel = {};
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(
        &shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
  if (status == cudaSuccess) status = cudaFuncGetAttributes(&of_kernel, kernel);
  // Without what the kernel itself uses.
  limits->shared_bytes =
      shared - static_cast<int64_t>(of_kernel.sharedSizeBytes);
  limits->cluster = of_kernel.ptxVersion >= 90 ? kMaxCluster : 1;
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// Lets `kernel` have `bytes` of dynamic shared memory: always the most there
// may be, for with what one launch needs, another thread's for longer rows
// would fail.
template <typename Kernel>
cudaError_t AllowShared(Kernel* kernel, int64_t bytes) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes));
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// Whether the device has room for a cluster of that shape: there may be fewer
// processors together, on a part of a GPU.
template <typename Kernel>
bool HasRoomForCluster(Kernel* kernel, const LaunchShape& shape) {
  cudaLaunchAttribute attribute;
  const cudaLaunchConfig_t config = MakeConfig(shape, nullptr, &attribute);
  int clusters = 0;
  cudaError_t status = cudaSuccess;
  if (shape.cluster > kMaxCluster) {
    status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (status == cudaSuccess) {
    status = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  }
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status == cudaSuccess && clusters > 0;
}

// PlanWholePacks() for `kernel` on the current device, which then may have what
// the plan says.
template <typename Kernel>
cudaError_t PlanWholePacksFor(Kernel* kernel, int64_t rows, int64_t packs,
                              int arrays, WholePackPlan* plan) {
  *plan = PlanWholePacks(rows, packs, arrays, {});
  // Asking the device costs a microsecond: only long rows need to.
  if (plan->form == RowForm::kRegisters) return cudaSuccess;
  RowLimits of_device;
  cudaError_t status = GetRowLimits(kernel, &of_device);
  if (status != cudaSuccess) return status;
  BlockLimits limits = {of_device.shared_bytes,
                        of_device.cluster > 1 ? kLargestCluster : 1};
  *plan = PlanWholePacks(rows, packs, arrays, limits);
  if (plan->form == RowForm::kNone) return cudaSuccess;
  status = AllowShared(kernel, limits.shared_bytes);
  if (status != cudaSuccess) return status;
  while (plan->shape.cluster > 1 && !HasRoomForCluster(kernel, plan->shape)) {
    limits.cluster = plan->shape.cluster / 2;
    *plan = PlanWholePacks(rows, packs, arrays, limits);
  }
  return cudaSuccess;
}

// Launches a RowKernel over args.rows >= 1 rows that are too long for
// registers: it finds its row in shared memory if `RowThread::shared` is set.
template <typename Wide, typename Args>
cudaError_t LaunchWideRows(const Args& args, int64_t packs, int64_t pack_bytes,
                           cudaStream_t stream) {
  RowLimits limits;
  cudaError_t status = GetRowLimits(RowKernel<Wide>, &limits);
  if (status != cudaSuccess) return status;
  RowPlan plan = PlanRows(args.rows, packs, pack_bytes, limits);
  if (plan.slots > 0) {
    status = AllowShared(RowKernel<Wide>, limits.shared_bytes);
    if (status != cudaSuccess) return status;
  }
  if (plan.path == RowPath::kCluster &&
      !HasRoomForCluster(RowKernel<Wide>, plan.shape)) {
    limits.cluster = 1;
    plan = PlanRows(args.rows, packs, pack_bytes, limits);
  }
  return Launch(RowKernel<Wide>, plan.shape, stream, args, ForKernel(plan));
}

// The same over rows of any length: Registers where they fit, else Wide.
template <typename Registers, typename Wide, typename Args>
cudaError_t LaunchRows(const Args& args, int64_t packs, int64_t pack_bytes,
                       cudaStream_t stream) {
  if (!RowsFitRegisters(packs)) {
    return LaunchWideRows<Wide>(args, packs, pack_bytes, stream);
  }
  // Asking the device costs a microsecond: only long rows need to.
  const RowPlan plan = PlanRows(args.rows, packs, 0, {});
  return Launch(RowKernel<Registers>, plan.shape, stream, args,
                ForKernel(plan));
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_LAUNCH_H_
