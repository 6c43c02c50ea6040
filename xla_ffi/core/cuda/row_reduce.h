// Sums over the threads of a row, in a kernel: of a warp, a block, a cluster.
// All of them add up in the same order each time, and give every thread the
// same sum.

#ifndef XLA_FFI_CORE_CUDA_ROW_REDUCE_H_
#define XLA_FFI_CORE_CUDA_ROW_REDUCE_H_

#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// Two sums of a row at a time.
struct TwoSums {
  double first, second;

  XLA_FFI_KIT_HOST_DEVICE TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

#ifdef __CUDACC__

// The block's dynamic shared memory.
template <typename T>
__device__ inline T* DynamicShared() {
  extern __shared__ uint4 dynamic[];
  return reinterpret_cast<T*>(dynamic);
}

// The value of the lane that differs in the bits of `offset`.
__device__ inline double OfOtherLane(double value, int offset) {
  constexpr unsigned kAllLanes = 0xffffffff;
  return __shfl_xor_sync(kAllLanes, value, offset);
}
__device__ inline TwoSums OfOtherLane(const TwoSums& value, int offset) {
  return {OfOtherLane(value.first, offset), OfOtherLane(value.second, offset)};
}

// Over `lanes` neighbouring threads, a power of two, of a warp.
template <typename T>
__device__ inline T SumOverLanes(T value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value += OfOtherLane(value, offset);
  }
  return value;
}

// Over the threads of a row that the block has, in one barrier. `partial`, 32
// of them in shared memory, is free again after the block's next barrier.
template <typename T>
__device__ inline T SumOverRow(T value, const RowLanes& lanes, T* partial) {
  if (lanes.lane_bits <= 5) return SumOverLanes(value, 1 << lanes.lane_bits);
  value = SumOverLanes(value, 32);
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = lanes.Step(static_cast<int>(blockDim.x)) / 32;
  const unsigned first = lanes.rows == 1 ? 0 : warp & ~(warps - 1);
  if (threadIdx.x % 32 == 0) partial[warp] = value;
  __syncthreads();
  value = partial[first];
  for (unsigned i = 1; i < warps; ++i) value += partial[first + i];
  return value;
}

// Older GPUs have no clusters, and are never told to use them.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define XLA_FFI_KIT_HAS_CLUSTERS
#endif

// Says that this block runs. Threads of a cluster call it first of all, so that
// nobody waits long in SumOverCluster().
__device__ inline void BeginCluster() {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  __cluster_barrier_arrive_relaxed();
#endif
}
__device__ inline void WaitForCluster() {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  __cluster_barrier_wait();
#endif
}

// Over the blocks of a cluster, of what all threads of a block have. The other
// blocks run: see BeginCluster(). Each block writes into `of_blocks` of all;
// they are free again after the cluster's next barrier.
template <typename T>
__device__ inline T SumOverCluster(T value, T* of_blocks) {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  const unsigned blocks = __clusterSizeInBlocks();
  T* own = of_blocks + __clusterRelativeBlockRank();
  if (threadIdx.x < blocks) {
    *static_cast<T*>(__cluster_map_shared_rank(own, threadIdx.x)) = value;
  }
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  value = of_blocks[0];
  for (unsigned i = 1; i < blocks; ++i) value += of_blocks[i];
#endif
  return value;
}

#undef XLA_FFI_KIT_HAS_CLUSTERS

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROW_REDUCE_H_
