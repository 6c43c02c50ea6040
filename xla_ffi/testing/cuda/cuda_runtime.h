// The part of CUDA's runtime that the kit's kernels use, on the CPU. With it,
// and with __CUDACC__ defined, a C++ compiler compiles .cu.cc files as they
// are, and tests run them without a GPU. See emulator.h for what it checks.

#ifndef XLA_FFI_TESTING_CUDA_CUDA_RUNTIME_H_
#define XLA_FFI_TESTING_CUDA_CUDA_RUNTIME_H_

#include <cmath>    // IWYU pragma: export
#include <cstddef>  // IWYU pragma: export
#include <cstdint>
#include <cstring>  // IWYU pragma: export

#include "xla_ffi/testing/cuda/emulator.h"

namespace kit_emulator = ::xla_ffi_kit::testing;

// --- The language ------------------------------------------------------------

#define __global__
#define __host__
#define __device__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __grid_constant__
// A block has a thread of the CPU to itself for as long as it runs. Where a
// kernel says `extern`, it means the one of emulator.h.
#define __shared__ thread_local

namespace xla_ffi_kit::testing {

// A number that is another one in each thread.
template <unsigned Location::* number>
struct InThread {
  operator unsigned() const { return Here().*number; }  // NOLINT: as in CUDA
};

}  // namespace xla_ffi_kit::testing

// They are not macros, because there are members of these names, too. Grids and
// blocks have one axis here.
inline constexpr struct {
  kit_emulator::InThread<&kit_emulator::Location::thread> x;
  unsigned y = 0, z = 0;
} threadIdx = {};
inline constexpr struct {
  kit_emulator::InThread<&kit_emulator::Location::block> x;
  unsigned y = 0, z = 0;
} blockIdx = {};
inline constexpr struct {
  kit_emulator::InThread<&kit_emulator::Location::threads> x;
  unsigned y = 1, z = 1;
} blockDim = {};
inline constexpr struct {
  kit_emulator::InThread<&kit_emulator::Location::blocks> x;
  unsigned y = 1, z = 1;
} gridDim = {};

// NOLINTBEGIN(bugprone-reserved-identifier): CUDA's names.

inline void __syncthreads() { kit_emulator::SyncBlock(); }
inline void __syncwarp(unsigned mask = 0xffffffff) {
  kit_emulator::SyncWarp(mask);
}
// A place for each instance of a template that it is in.
#define __activemask()          \
  kit_emulator::ActiveMask([] { \
    static char place;          \
    return &place;              \
  }())
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(value));
  bits = kit_emulator::ExchangeInWarp(mask, bits, lane_mask);
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// Threads take turns, and nothing comes between.
template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}

inline void __cluster_barrier_arrive() { kit_emulator::ArriveAtCluster(); }
inline void __cluster_barrier_arrive_relaxed() {
  kit_emulator::ArriveAtCluster();
}
inline void __cluster_barrier_wait() { kit_emulator::WaitForCluster(); }
inline unsigned __clusterRelativeBlockRank() {
  return kit_emulator::Here().rank;
}
inline unsigned __clusterSizeInBlocks() { return kit_emulator::Here().cluster; }
inline void* __cluster_map_shared_rank(const void* p, unsigned rank) {
  return kit_emulator::SharedOfRank(p, rank);
}

// NOLINTEND(bugprone-reserved-identifier)

inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() {
  kit_emulator::WaitForGridBefore();
}

// --- The functions -----------------------------------------------------------

struct CUstream_st;
using cudaStream_t = CUstream_st*;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorLaunchFailure = 719,
};

inline const char* cudaGetErrorName(cudaError_t status) {
  return status == cudaSuccess ? "cudaSuccess" : "emulated error";
}
inline const char* cudaGetErrorString(cudaError_t status) {
  return cudaGetErrorName(status);
}

namespace xla_ffi_kit::testing {

// The last error of this thread, until cudaGetLastError() returns it.
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t Failed(cudaError_t status) { return last_error = status; }

}  // namespace xla_ffi_kit::testing

inline cudaError_t cudaGetLastError() {
  const cudaError_t status = kit_emulator::last_error;
  kit_emulator::last_error = cudaSuccess;
  return status;
}

inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrComputeCapabilityMajor,
};

inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute,
                                          int /*device*/) {
  const auto& device = kit_emulator::Device();
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = device.processors;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(device.max_shared_bytes);
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = device.major;
      break;
  }
  return cudaSuccess;
}

enum cudaFuncAttribute {
  cudaFuncAttributeMaxDynamicSharedMemorySize,
  cudaFuncAttributeNonPortableClusterSizeAllowed,
};

template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute attribute,
                                 int value) {
  auto& limits = kit_emulator::LimitsOf(reinterpret_cast<const void*>(kernel));
  if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed) {
    limits.large_clusters = value != 0;
  } else if (value + kit_emulator::kOtherSharedBytes >
             kit_emulator::Device().max_shared_bytes) {
    return kit_emulator::Failed(cudaErrorInvalidValue);
  } else {
    limits.shared_bytes = value;
  }
  return cudaSuccess;
}

struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  int ptxVersion;
};

template <typename Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                  Kernel* /*kernel*/) {
  attributes->sharedSizeBytes = kit_emulator::kOtherSharedBytes;
  attributes->ptxVersion = kit_emulator::Device().major * 10;
  return cudaSuccess;
}

template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                          Kernel* /*kernel*/,
                                                          int /*threads*/,
                                                          size_t /*shared*/) {
  *blocks = kit_emulator::Device().blocks_per_processor;
  return cudaSuccess;
}

struct dim3 {
  dim3(unsigned x = 1) : x(x) {}  // NOLINT: as in CUDA
  unsigned x, y = 1, z = 1;
};

enum cudaLaunchAttributeID {
  cudaLaunchAttributeClusterDimension,
  cudaLaunchAttributeProgrammaticStreamSerialization,
};

struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    struct {
      unsigned x, y, z;
    } clusterDim;
    int programmaticStreamSerializationAllowed;
  } val;
};

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, Kernel* kernel,
                                           const cudaLaunchConfig_t* config) {
  const auto& device = kit_emulator::Device();
  const auto blocks = static_cast<int>(config->attrs->val.clusterDim.x);
  const auto& limits =
      kit_emulator::LimitsOf(reinterpret_cast<const void*>(kernel));
  const unsigned grid = config->gridDim.x;
  if (grid == 0 || grid % static_cast<unsigned>(blocks) != 0 ||
      (blocks > 8 && !limits.large_clusters)) {
    return kit_emulator::Failed(cudaErrorInvalidValue);
  }
  *clusters = device.processors / blocks;
  return cudaSuccess;
}

// Runs the kernel before it returns.
template <typename... Parameters, typename... Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config,
                               void (*kernel)(Parameters...), Args&&... args) {
  kit_emulator::Grid grid;
  grid.blocks = config->gridDim.x;
  grid.threads = config->blockDim.x;
  grid.shared_bytes = static_cast<int64_t>(config->dynamicSmemBytes);
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      grid.cluster = attribute.val.clusterDim.x;
    } else {
      grid.is_early = attribute.val.programmaticStreamSerializationAllowed != 0;
    }
  }
  const bool ok = kit_emulator::RunGrid(
      grid, reinterpret_cast<const void*>(kernel), [&] { kernel(args...); });
  return ok ? cudaSuccess : kit_emulator::Failed(cudaErrorLaunchFailure);
}

#endif  // XLA_FFI_TESTING_CUDA_CUDA_RUNTIME_H_
