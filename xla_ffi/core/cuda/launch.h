// Kernel launch helpers; each returns the launch's cudaError_t.

#ifndef XLA_FFI_CORE_CUDA_LAUNCH_H_
#define XLA_FFI_CORE_CUDA_LAUNCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/elementwise.h"

namespace xla_ffi_kit {

#ifdef __CUDACC__

// The attributes of a launch, besides its numbers of blocks and threads.
struct LaunchAttributes {
  cudaLaunchAttribute of[2] = {};
  unsigned count = 0;
};

// `attributes` are the config's own, and live as long.
inline cudaLaunchConfig_t MakeConfig(const LaunchShape& shape,
                                     cudaStream_t stream,
                                     LaunchAttributes* attributes) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(shape.blocks));
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  if (shape.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes->of[attributes->count++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = static_cast<unsigned>(shape.cluster);
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  if (shape.is_early) {
    cudaLaunchAttribute& early = attributes->of[attributes->count++];
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
  }
  config.attrs = attributes->of;
  config.numAttrs = attributes->count;
  return config;
}

// Launches `kernel` on `stream`: no allocation, no synchronization, nothing on
// another stream, so that a CUDA graph can capture it. Returns this launch's
// error, which does not stay behind for whoever asks for the last one next.
template <typename... Parameters, typename... Args>
cudaError_t Launch(void (*kernel)(Parameters...), const LaunchShape& shape,
                   cudaStream_t stream, Args&&... args) {
  LaunchAttributes attributes;
  const cudaLaunchConfig_t config = MakeConfig(shape, stream, &attributes);
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

// Lets the next kernel begin, if it is launched early, as soon as all blocks
// have called this. That kernel sees what they write only after
// WaitForKernelBefore().
__device__ inline void LaunchNextKernel() {
#ifndef __NVCC__
  cudaTriggerProgrammaticLaunchCompletion();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
__device__ inline void WaitForKernelBefore() {
#ifndef __NVCC__
  cudaGridDependencySynchronize();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Finds what the current device offers to `kernel`. Clusters and early launches
// need a device that has them, and code that was compiled for one.
template <typename Kernel>
cudaError_t GetBlockLimits(Kernel* kernel, BlockLimits* limits) {
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
  limits->is_hopper = of_kernel.ptxVersion >= 90;
  limits->cluster = limits->is_hopper ? kLargestCluster : 1;
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// Allows `kernel` `bytes` of dynamic shared memory. Callers ask for the most
// that the device has: the limit is the kernel's, not the launch's, so that a
// launch that sets it to what it needs makes one on another thread fail that
// needs more.
template <typename Kernel>
cudaError_t AllowShared(Kernel* kernel, int64_t bytes) {
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(bytes));
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// The clusters of that shape that the device runs at a time: 0 on a part of a
// GPU that has too few processors together.
template <typename Kernel>
int ResidentClusters(Kernel* kernel, const LaunchShape& shape) {
  LaunchAttributes attributes;
  cudaLaunchConfig_t config = MakeConfig(shape, nullptr, &attributes);
  // A plan may not know its blocks yet, and CUDA refuses a grid without any.
  config.gridDim = dim3(static_cast<unsigned>(shape.cluster));
  int clusters = 0;
  cudaError_t status = cudaSuccess;
  constexpr int kLargestOnEveryGpu = 8;
  if (shape.cluster > kLargestOnEveryGpu) {
    status = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  }
  if (status == cudaSuccess) {
    status = cudaOccupancyMaxActiveClusters(&clusters, kernel, &config);
  }
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status == cudaSuccess ? clusters : 0;
}

// The blocks of a kernel, or its clusters, that the current device runs at a
// time; at least one.
template <typename... Parameters>
cudaError_t ResidentUnits(void (*kernel)(Parameters...),
                          const LaunchShape& shape, int64_t* units) {
  int device = 0, processors = 0, of_processor = 0;
  cudaError_t status = cudaSuccess;
  if (shape.cluster > 1) {
    *units = std::max<int64_t>(ResidentClusters(kernel, shape), 1);
    return status;
  }
  status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                    device);
  }
  if (status == cudaSuccess) {
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &of_processor, kernel, shape.threads,
        static_cast<size_t>(shape.shared_bytes));
  }
  *units = std::max<int64_t>(int64_t{processors} * of_processor, 1);
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

// Sets `plan` to plan_for(limits) with the limits of `kernel` on the current
// device, and with clusters no larger than the device runs. The kernel is then
// allowed the plan's shared memory. Returns CUDA's first error.
template <typename Kernel, typename PlanFor>
cudaError_t PlanOnDevice(Kernel* kernel, const PlanFor& plan_for,
                         decltype(plan_for(BlockLimits()))* plan) {
  BlockLimits limits;
  cudaError_t status = GetBlockLimits(kernel, &limits);
  if (status == cudaSuccess) status = AllowShared(kernel, limits.shared_bytes);
  if (status != cudaSuccess) return status;
  *plan = plan_for(limits);
  while (plan->shape.cluster > 1 &&
         ResidentClusters(kernel, plan->shape) == 0) {
    limits.cluster = plan->shape.cluster / 2;
    *plan = plan_for(limits);
  }
  return cudaSuccess;
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_LAUNCH_H_
