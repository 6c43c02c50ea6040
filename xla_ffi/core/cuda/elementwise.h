// Elementwise kernels: which thread does which elements, and how many threads.

#ifndef XLA_FFI_CORE_CUDA_ELEMENTWISE_H_
#define XLA_FFI_CORE_CUDA_ELEMENTWISE_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// Blocks and threads per block of a one-dimensional launch, the bytes of
// dynamic shared memory of a block, the blocks of a cluster, and whether it may
// begin before the kernel before it ends.
struct LaunchShape {
  int64_t blocks = 0;
  int threads = 0;
  int64_t shared_bytes = 0;
  int cluster = 1;
  bool is_early = false;
};

// The largest cluster there is; beyond 8 blocks a kernel has to ask for it.
inline constexpr int kLargestCluster = 16;

// The resources that a device offers to a kernel.
struct BlockLimits {
  int64_t shared_bytes = 0;  // of a block
  int cluster = 1;           // blocks of the largest one: a power of two
  bool is_hopper = false;    // 9.0 or newer: kernels may begin early
};

// The most blocks a launch may have, on every GPU there is.
inline constexpr int64_t kMaxBlocks = (int64_t{1} << 31) - 1;

// Plans a launch for `count` >= 1 elements in packs of `width`. A thread has
// one pack, or more if there are not enough blocks.
inline LaunchShape PlanElementwise(int64_t count, int width) {
  constexpr int kThreads = 256;
  // Enough threads also for the elements after the last pack.
  const int64_t items = std::max<int64_t>(count / width, count % width);
  const int64_t blocks = (items - 1) / kThreads + 1;
  return {std::min(blocks, kMaxBlocks), kThreads};
}

// Thread number `thread` of `threads` calls op(i, Width<N>()) for its packs,
// which begin at element i, and op(i, Width<1>()) for its share of the
// elements after the last full pack. All threads cover [0, count) once.
template <int N, typename Op>
XLA_FFI_KIT_HOST_DEVICE inline void ForEachPack(int64_t thread, int64_t threads,
                                                int64_t count, const Op& op) {
  const int64_t packs = count / N;
  for (int64_t pack = thread; pack < packs; pack += threads) {
    op(pack * N, Width<N>());
  }
  if constexpr (N > 1) {
    for (int64_t i = packs * N + thread; i < count; i += threads) {
      op(i, Width<1>());
    }
  }
}

#ifdef __CUDACC__

template <int N, typename Op>
__global__ void ElementwiseKernel(int64_t count, Op op) {
  const int64_t thread = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  ForEachPack<N>(thread, int64_t{gridDim.x} * blockDim.x, count, op);
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ELEMENTWISE_H_
