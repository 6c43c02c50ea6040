// Kernels that reduce every row of an array to a number and then use it on the
// row's elements: how threads share the rows, and how many there are.
//
// A row is read from memory once: its threads keep it in registers, or, where
// it is longer, in shared memory, of one block or of a cluster of blocks. Only
// rows too long for all of them are read again.

#ifndef XLA_FFI_CORE_CUDA_ROWS_H_
#define XLA_FFI_CORE_CUDA_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/row_reduce.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// In registers, a thread keeps this many packs of every array it reads ...
inline constexpr int kPacksPerThread = 4;
// ... and a row has at most this many threads: 8K floats of 4 to a pack.
inline constexpr int kMaxThreadsInRegisters = 512;

// The largest cluster that every GPU with clusters can have.
inline constexpr int kMaxCluster = 8;

enum class RowPath { kRegisters, kShared, kCluster, kReload };

// Of a device.
struct RowLimits {
  int64_t shared_bytes = 0;  // that a block may have
  int cluster = 1;           // blocks of the largest one: a power of two
};

struct RowPlan {
  RowPath path = RowPath::kRegisters;
  int threads_per_row = 1;  // of a block: a power of two
  int64_t slots = 0;        // packs of an array that a block keeps
  LaunchShape shape;        // threads: a multiple of threads_per_row, of 32

  int RowsPerBlock() const { return shape.threads / threads_per_row; }
};

// Whether rows of that many packs stay in registers.
inline bool RowsFitRegisters(int64_t packs) {
  return packs <= int64_t{kPacksPerThread} * kMaxThreadsInRegisters;
}

// The blocks of the smallest cluster that keeps a row of `packs` packs, of
// `pack_bytes` in all arrays: 1 if none does.
inline int ClusterOf(int64_t packs, int64_t pack_bytes, int threads,
                     const RowLimits& limits) {
  for (int blocks = 2; blocks <= limits.cluster; blocks *= 2) {
    const int64_t lanes = int64_t{blocks} * threads;
    const int64_t slots = ((packs - 1) / lanes + 1) * threads;
    if (slots * pack_bytes <= limits.shared_bytes) return blocks;
  }
  return 1;
}

// For `rows` >= 1 rows of `packs` >= 1 packs. `pack_bytes` are those of a pack
// in all arrays that are kept in shared memory.
inline RowPlan PlanRows(int64_t rows, int64_t packs, int64_t pack_bytes,
                        const RowLimits& limits) {
  constexpr int kWarp = 32;
  const int64_t shared_bytes = packs * pack_bytes;
  RowPlan plan;
  if (RowsFitRegisters(packs)) {
    // Neighbouring threads should read 128 bytes in a row, so up to 8 threads
    // before one takes a second pack.
    int64_t wanted = std::max((packs - 1) / kPacksPerThread + 1,
                              std::min<int64_t>(packs, 8));
    while (plan.threads_per_row < wanted) plan.threads_per_row *= 2;
    plan.shape.threads = std::max(plan.threads_per_row, 256);
    // Smaller blocks where there are too few for all of a GPU's processors.
    constexpr int64_t kEnoughBlocks = 256;
    while (plan.shape.threads > std::max(plan.threads_per_row, kWarp) &&
           rows / plan.RowsPerBlock() < kEnoughBlocks) {
      plan.shape.threads /= 2;
    }
  } else if (shared_bytes <= limits.shared_bytes) {
    plan.path = RowPath::kShared;
    plan.slots = packs;
    plan.shape.shared_bytes = shared_bytes;
    // A block that leaves no room for a second one needs all the threads.
    plan.shape.threads = shared_bytes * 2 > limits.shared_bytes ? 1024 : 512;
    plan.threads_per_row = plan.shape.threads;
  } else {
    plan.threads_per_row = plan.shape.threads = 1024;
    plan.shape.cluster =
        ClusterOf(packs, pack_bytes, plan.shape.threads, limits);
    plan.path = RowPath::kReload;
    if (plan.shape.cluster > 1) {
      plan.path = RowPath::kCluster;
      const int64_t lanes = int64_t{plan.shape.cluster} * plan.shape.threads;
      plan.slots = ((packs - 1) / lanes + 1) * plan.shape.threads;
      plan.shape.shared_bytes = plan.slots * pack_bytes;
    }
  }
  const int64_t units = (rows - 1) / plan.RowsPerBlock() + 1;
  plan.shape.blocks =
      std::min(units, kMaxBlocks / plan.shape.cluster) * plan.shape.cluster;
  return plan;
}

// Where a thread works: `lane` of the `lanes` that share a row. It takes the
// packs lane, lane + lanes, ... of the row.
struct RowThread {
  int lane;
  int lanes;
  // The block's dynamic shared memory, null if it has none: for each array
  // `slots` packs, of which slot, slot + slot_step, ... are the thread's.
  void* shared;
  int64_t slots;
  int slot;
  int slot_step;
};

// The first row of a block's thread; later ones follow in steps of RowStep().
XLA_FFI_KIT_HOST_DEVICE inline int64_t FirstRow(int64_t block, int thread,
                                                int threads, int lanes) {
  return block * (threads / lanes) + thread / lanes;
}
XLA_FFI_KIT_HOST_DEVICE inline int64_t RowStep(int64_t blocks, int threads,
                                               int lanes) {
  return blocks * (threads / lanes);
}

#ifdef __CUDACC__

// The sum over a row's threads, for each of them, always in the same order, of
// doubles or TwoSums. All threads of the block call it; `partial` has room for
// 32 of them.
template <typename T>
__device__ inline T SumOverRowAndWait(T value, int lanes, T* partial) {
  for (int offset = (lanes < 32 ? lanes : 32) / 2; offset > 0; offset /= 2) {
    value += OfOtherLane(value, offset);
  }
  if (lanes <= 32) return value;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = lanes / 32, first = warp / warps * warps;
  if (threadIdx.x % 32 == 0) partial[warp] = value;
  __syncthreads();
  value = partial[first];
  for (int i = 1; i < warps; ++i) value += partial[first + i];
  __syncthreads();  // the next row's sums go to the same place
  return value;
}

// Older GPUs have no clusters, and are never told to use them.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define XLA_FFI_KIT_HAS_CLUSTERS
#endif

__device__ inline void WaitForClusterAgain() {
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  __cluster_barrier_wait();
#endif
}

// The sum over the blocks of a cluster, of what all threads of a block have,
// always in the same order. Each thread then calls WaitForClusterAgain() before
// the next sum and before it ends: others may still read `own`.
template <typename T>
__device__ inline T SumOverClusterOf(const T& value, T* own) {
  T sum = value;
#ifdef XLA_FFI_KIT_HAS_CLUSTERS
  if (threadIdx.x == 0) *own = value;
  __cluster_barrier_arrive();
  __cluster_barrier_wait();
  const auto of_rank = [own](unsigned rank) {
    return *static_cast<const T*>(__cluster_map_shared_rank(own, rank));
  };
  sum = of_rank(0);
  for (unsigned rank = 1; rank < __clusterSizeInBlocks(); ++rank) {
    sum += of_rank(rank);
  }
  __cluster_barrier_arrive();
#endif
  return sum;
}

#undef XLA_FFI_KIT_HAS_CLUSTERS

// What a launch tells a RowKernel.
struct RowKernelPlan {
  int lanes;      // of a block, that share a row
  int cluster;    // blocks that share a row
  int64_t slots;  // see RowThread
  bool has_shared;
};

inline RowKernelPlan ForKernel(const RowPlan& plan) {
  return {plan.threads_per_row, plan.shape.cluster, plan.slots, plan.slots > 0};
}

// Whether rows may be too long for registers.
template <typename Work>
inline constexpr bool kMayBeWide = Work::kMaxThreads > kMaxThreadsInRegisters;

// For every row: Work().Sum(args, row, thread) by each of its threads, then
// Finish(args, row, thread, total) by each of them. Sums are doubles or
// TwoSums.
template <typename Work>
__global__ void __launch_bounds__(Work::kMaxThreads)
    RowKernel(typename Work::Args args, RowKernelPlan plan) {
  using Sum = decltype(Work().Sum(args, 0, RowThread()));
  extern __shared__ uint4 dynamic[];
  __shared__ Sum partial[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int lanes = plan.lanes;
  // Blocks of a cluster have neighbouring numbers.
  const int cluster = kMayBeWide<Work> ? plan.cluster : 1;
  const int rank = static_cast<int>(blockIdx.x) % cluster;
  const RowThread place = {rank * lanes + thread % lanes,
                           cluster * lanes,
                           plan.has_shared ? dynamic : nullptr,
                           plan.slots,
                           thread,
                           threads};
  const int64_t step = RowStep(gridDim.x / cluster, threads, lanes);
  // The bound is the block's: all of its threads take part in every sum.
  for (int64_t first = FirstRow(blockIdx.x / cluster, 0, threads, lanes);
       first < args.rows; first += step) {
    const int64_t row = first + thread / lanes;
    Work work;
    Sum sum = {};
    if (row < args.rows) sum = work.Sum(args, row, place);
    Sum total = SumOverRowAndWait(sum, lanes, partial);
    if constexpr (kMayBeWide<Work>) {
      if (cluster > 1) total = SumOverClusterOf(total, partial);
    }
    if (row < args.rows) work.Finish(args, row, place, total);
    if constexpr (kMayBeWide<Work>) {
      if (cluster > 1) WaitForClusterAgain();
    }
  }
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROWS_H_
