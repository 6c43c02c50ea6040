// Kernels that reduce every row of an array to a number and then use it on the
// row's elements, for rows of any kind: how threads share the rows, and how
// many there are. A row is read twice, the second time from a cache where it is
// not too long; whole packs have kernels of their own, see row_plan.h.

#ifndef XLA_FFI_CORE_CUDA_ROWS_H_
#define XLA_FFI_CORE_CUDA_ROWS_H_

#include <algorithm>
#include <cstdint>

#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/row_reduce.h"
#include "xla_ffi/core/host_device.h"

namespace xla_ffi_kit {

inline constexpr int kMaxRowThreads = 1024;

struct RowPlan {
  RowLanes lanes;  // of a row: any power of two
  LaunchShape shape;
};

// Plans a launch for `rows` >= 1 rows of `packs` >= 1 packs.
inline RowPlan PlanRows(int64_t rows, int64_t packs) {
  RowPlan plan;
  // Neighboring threads should read 128 bytes in a row, so up to 8 threads
  // before one takes a second pack, and then up to four packs each.
  const int64_t wanted =
      std::max((packs - 1) / 4 + 1, std::min<int64_t>(packs, 8));
  plan.lanes.lane_bits = 0;
  while (1 << plan.lanes.lane_bits <
         std::min<int64_t>(wanted, kMaxRowThreads)) {
    ++plan.lanes.lane_bits;
  }
  const int lanes = 1 << plan.lanes.lane_bits;
  plan.shape.threads = std::max(lanes, 256);
  // Smaller blocks where there are too few for all of a GPU's processors.
  while (plan.shape.threads > std::max(lanes, 32) &&
         rows / (plan.shape.threads / lanes) <
             row_plan_internal::kEnoughBlocks) {
    plan.shape.threads /= 2;
  }
  plan.lanes.rows = plan.shape.threads / lanes;
  plan.shape.blocks = std::min(
      row_plan_internal::QuotientUp(rows, plan.lanes.rows), kMaxBlocks);
  return plan;
}

// Where a thread works: `lane` of the `lanes` that share a row. It takes the
// packs lane, lane + lanes, ... of the row.
struct RowThread {
  int lane;
  int lanes;
};

#ifdef __CUDACC__

// Calls, for every row, Work().Sum(args, row, thread) in each of its threads,
// then Finish(args, row, thread, total) in each of them. Sums are doubles or
// TwoSums.
template <typename Work>
__global__ void __launch_bounds__(kMaxRowThreads, 1)
    RowKernel(typename Work::Args args, RowLanes lanes) {
  using Sum = decltype(Work().Sum(args, 0, RowThread()));
  // Sums of a row and of the next one, so that one barrier is enough.
  __shared__ Sum partial[2][32];
  const int thread = static_cast<int>(threadIdx.x);
  const RowThread place = {lanes.Lane(thread), 1 << lanes.lane_bits};
  const int64_t step = int64_t{gridDim.x} * lanes.rows;
  int parity = 0;
  // The bound is the block's: all of its threads take part in every sum.
  for (int64_t first = int64_t{blockIdx.x} * lanes.rows; first < args.rows;
       first += step, parity = 1 - parity) {
    const int64_t row = first + (thread >> lanes.lane_bits);
    Work work;
    Sum sum = {};
    if (row < args.rows) sum = work.Sum(args, row, place);
    const Sum total = SumOverRow(sum, lanes, partial[parity]);
    if (row < args.rows) work.Finish(args, row, place, total);
  }
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROWS_H_
