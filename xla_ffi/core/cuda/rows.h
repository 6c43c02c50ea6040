// Kernels that reduce every row of an array to a number and then use it on the
// row's elements: how threads share the rows, and how many there are.
//
// A row is read from memory once: its threads keep it in registers, or, where
// it is longer, in shared memory. Only rows too long for both are read again.

#ifndef XLA_FFI_CORE_CUDA_ROWS_H_
#define XLA_FFI_CORE_CUDA_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

// In registers, a thread keeps this many packs of every array it reads ...
inline constexpr int kPacksPerThread = 4;
// ... and a row has at most this many threads: 8K floats of 4 to a pack.
inline constexpr int kMaxThreadsInRegisters = 512;

enum class RowPath { kRegisters, kShared, kReload };

struct RowPlan {
  RowPath path = RowPath::kRegisters;
  int threads_per_row = 1;  // a power of two
  LaunchShape shape;        // threads: a multiple of threads_per_row, of 32

  int RowsPerBlock() const { return shape.threads / threads_per_row; }
};

// Whether rows of that many packs stay in registers.
inline bool RowsFitRegisters(int64_t packs) {
  return packs <= int64_t{kPacksPerThread} * kMaxThreadsInRegisters;
}

// For `rows` >= 1 rows of `packs` >= 1 packs. `shared_bytes` is what a block
// needs to keep its row in shared memory, `max_shared_bytes` what it may have.
inline RowPlan PlanRows(int64_t rows, int64_t packs, int64_t shared_bytes,
                        int64_t max_shared_bytes) {
  constexpr int kWarp = 32;
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
  } else if (shared_bytes <= max_shared_bytes) {
    plan.path = RowPath::kShared;
    plan.shape.shared_bytes = shared_bytes;
    // A block that leaves no room for a second one needs all the threads.
    plan.shape.threads = shared_bytes * 2 > max_shared_bytes ? 1024 : 512;
    plan.threads_per_row = plan.shape.threads;
  } else {
    plan.path = RowPath::kReload;
    plan.threads_per_row = plan.shape.threads = 1024;
  }
  const int64_t blocks = (rows - 1) / plan.RowsPerBlock() + 1;
  plan.shape.blocks = std::min(blocks, kMaxBlocks);
  return plan;
}

// Two sums of a row at a time.
struct TwoSums {
  double first, second;

  XLA_FFI_KIT_HOST_DEVICE TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

// Where a thread works: `lane` of the `lanes` that share a row.
struct RowThread {
  int lane;
  int lanes;
  void* shared;  // the block's dynamic shared memory, null if it has none
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

// The value of the lane that differs in the bits of `offset`.
__device__ inline double OfOtherLane(double value, int offset) {
  constexpr unsigned kAllLanes = 0xffffffff;
  return __shfl_xor_sync(kAllLanes, value, offset);
}
__device__ inline TwoSums OfOtherLane(const TwoSums& value, int offset) {
  return {OfOtherLane(value.first, offset), OfOtherLane(value.second, offset)};
}

// The sum over a row's threads, for each of them, always in the same order, of
// doubles or TwoSums. All threads of the block call it; `partial` has room for
// 32 of them.
template <typename T>
__device__ inline T SumOverRow(T value, int lanes, T* partial) {
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

// For every row: Work().Sum(args, row, thread) by each of its threads, then
// Finish(args, row, thread, total) by each of them. Sums are doubles or
// TwoSums.
template <typename Work>
__global__ void __launch_bounds__(Work::kMaxThreads)
    RowKernel(typename Work::Args args, int lanes, bool has_shared) {
  using Sum = decltype(Work().Sum(args, 0, RowThread()));
  extern __shared__ uint4 dynamic[];
  __shared__ Sum partial[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const RowThread place = {thread % lanes, lanes,
                           has_shared ? dynamic : nullptr};
  const int64_t step = RowStep(gridDim.x, threads, lanes);
  // The bound is the block's: all of its threads take part in every sum.
  for (int64_t first = FirstRow(blockIdx.x, 0, threads, lanes);
       first < args.rows; first += step) {
    const int64_t row = first + thread / lanes;
    Work work;
    Sum sum = {};
    if (row < args.rows) sum = work.Sum(args, row, place);
    const Sum total = SumOverRow(sum, lanes, partial);
    if (row < args.rows) work.Finish(args, row, place, total);
  }
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROWS_H_
