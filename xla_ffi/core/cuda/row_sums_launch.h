// The kernels of row_sums.h, and their launches.

#ifndef XLA_FFI_CORE_CUDA_ROW_SUMS_LAUNCH_H_
#define XLA_FFI_CORE_CUDA_ROW_SUMS_LAUNCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/core/cuda/rows.h"

namespace xla_ffi_kit {

#ifdef __CUDACC__

// Rows in registers. A Work, for the same columns in all its rows:
//
//   Fetch(args, row, place)         begins to load a row
//   Sum(args, row, place)           takes that row, as in RowKernel
//   Finish(args, row, place, total) as in RowKernel; also adds to its sums
//   StoreSums(args, place, out)     stores them, and begins again with zeros
//
// args.sums is the scratch memory.
template <typename Work>
__global__ void __launch_bounds__(Work::kMaxThreads, 1)
    RowSumsKernel(typename Work::Args args, RowSums s) {
  extern __shared__ uint4 dynamic[];
  __shared__ double partial[32];
  auto* shared = reinterpret_cast<typename Work::A*>(dynamic);
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int in_block = threads / s.lanes, mine = thread / s.lanes;
  const RowThread place = {thread % s.lanes, s.lanes, nullptr, 0, 0, 0};
  const int64_t step = s.parts * in_block;
  for (int64_t unit = blockIdx.x; unit < s.groups * s.parts;
       unit += gridDim.x) {
    const int64_t group = unit / s.parts, part = unit % s.parts;
    const int64_t end = (group + 1) * s.rows;
    // The first of the block's rows: its threads take part in every sum.
    int64_t first = group * s.rows + part * in_block;
    Work work;
    if (first + mine < end) work.Fetch(args, first + mine, place);
    for (int64_t slot = 0; slot < s.slots_per_part; ++slot) {
      for (int i = 0; i < kRowsPerSlot && first < end; ++i, first += step) {
        const int64_t row = first + mine;
        double sum = 0;
        if (row < end) sum = work.Sum(args, row, place);
        // On its way while the threads wait for each other.
        if (row + step < end) work.Fetch(args, row + step, place);
        const double total = SumOverRowAndWait(sum, s.lanes, partial);
        if (row < end) work.Finish(args, row, place, total);
      }
      typename Work::A* out = args.sums + s.SlotBegin(group, part, slot);
      if (in_block == 1) {
        work.StoreSums(args, place, out);
        continue;
      }
      work.StoreSums(args, place, shared + mine * s.count);
      __syncthreads();
      for (int64_t c = thread; c < s.count; c += threads) {
        out[c] = SumOfRows(shared, in_block, s.count, c);
      }
      __syncthreads();  // the next slot's sums go to the same place
    }
  }
}

// Columns. A Work, for one pack of them:
//
//   Add(args, row, pack)  adds a row to its sums
//   Store(out, pack)      stores them, once
template <typename Work>
__global__ void __launch_bounds__(kColumnThreads)
    ColumnSumsKernel(typename Work::Args args, ColumnSums columns) {
  const RowSums& s = columns.sums;
  const int64_t units = s.groups * s.parts * columns.column_blocks;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const int64_t block = unit % columns.column_blocks;
    const int64_t of_group = unit / columns.column_blocks;
    const int64_t group = of_group / s.parts, part = of_group % s.parts;
    const int64_t pack = block * kColumnThreads + threadIdx.x;
    if (pack >= columns.packs) continue;
    const int64_t begin = group * s.rows, end = begin + s.rows;
    Work work;
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t row = begin + part; row < end; row += s.parts) {
      work.Add(args, row, pack);
    }
    work.Store(args.sums + s.SlotBegin(group, part, 0), pack);
  }
}

template <typename A, typename R>
__global__ void __launch_bounds__(32 * kSlotWarps)
    SlotSumsKernel(const A* sums, RowSums s, R* out) {
  __shared__ double of_warps[kSlotWarps][32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t column_blocks = (s.count - 1) / 32 + 1;
  for (int64_t unit = blockIdx.x; unit < s.groups * column_blocks;
       unit += gridDim.x) {
    const int64_t group = unit / column_blocks;
    const int64_t column = unit % column_blocks * 32 + lane;
    const bool has_column = column < s.count;
    of_warps[warp][lane] =
        has_column ? SlotSum(sums, s, group, column, warp) : 0;
    __syncthreads();
    if (warp == 0 && has_column) {
      double total = 0;
      for (int i = 0; i < kSlotWarps; ++i) total += of_warps[i][lane];
      out[group * s.count + column] = static_cast<R>(static_cast<A>(total));
    }
    __syncthreads();  // the next column's sums go to the same place
  }
}

// The blocks of a kernel that the current device runs at a time.
template <typename... Parameters>
cudaError_t ResidentBlocks(void (*kernel)(Parameters...),
                           const LaunchShape& shape, int64_t* blocks) {
  int device = 0, processors = 0, of_processor = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                    device);
  }
  if (status == cudaSuccess) {
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
        &of_processor, kernel, shape.threads,
        static_cast<size_t>(shape.shared_bytes));
  }
  *blocks = std::max<int64_t>(int64_t{processors} * of_processor, 1);
  if (status != cudaSuccess) (void)cudaGetLastError();
  return status;
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROW_SUMS_LAUNCH_H_
