// The kernels of row_sums.h that do not depend on an operation.

#ifndef XLA_FFI_CORE_CUDA_ROW_SUMS_LAUNCH_H_
#define XLA_FFI_CORE_CUDA_ROW_SUMS_LAUNCH_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/elementwise.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/row_sums.h"

namespace xla_ffi_kit {

#ifdef __CUDACC__

// Columns. A Work, for one pack of them:
//
//   Add(args, row, pack)  adds a row to its sums
//   Store(out, pack)      stores them, once
//
// args.sums is the workspace.
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

// Adds up the slots, kColumns columns to a thread: one, or a whole pack where
// s.count is a multiple of that. May be launched early.
template <int kColumns, typename A, typename R>
__global__ void __launch_bounds__(kSlotThreads* kSlotColumns)
    SlotSumsKernel(const A* sums, RowSums s, R* out) {
  constexpr int64_t kBlockColumns = kSlotColumns * kColumns;
  __shared__ double of_threads[kSlotThreads][kBlockColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const int own_column = thread % kSlotColumns * kColumns;
  const int own_slot = thread / kSlotColumns;
  const int64_t column_blocks = (s.count - 1) / kBlockColumns + 1;
  WaitForKernelBefore();
  for (int64_t unit = blockIdx.x; unit < s.groups * column_blocks;
       unit += gridDim.x) {
    const int64_t group = unit / column_blocks;
    const int64_t begin = unit % column_blocks * kBlockColumns;
    double of_thread[kColumns] = {};
    if (begin + own_column < s.count) {
      const A* in = sums + s.SlotBegin(group, 0, 0) + begin + own_column;
      XLA_FFI_KIT_UNROLL(4)
      for (int64_t slot = own_slot; slot < s.Slots(); slot += kSlotThreads) {
        const Pack<A, kColumns> values =
            LoadPack<kColumns>(in + slot * s.count);
        for (int i = 0; i < kColumns; ++i) {
          of_thread[i] += static_cast<double>(values.values[i]);
        }
      }
    }
    for (int i = 0; i < kColumns; ++i) {
      of_threads[own_slot][own_column + i] = of_thread[i];
    }
    __syncthreads();
    if (thread < kBlockColumns && begin + thread < s.count) {
      double total = 0;
      for (int i = 0; i < kSlotThreads; ++i) total += of_threads[i][thread];
      out[group * s.count + begin + thread] =
          static_cast<R>(static_cast<A>(total));
    }
    __syncthreads();  // the next columns' sums go to the same place
  }
}

// The second launch of two: `is_early` if it may begin while the first still
// runs.
template <typename A, typename R>
cudaError_t LaunchSlotSums(const A* sums, const RowSums& s, R* out,
                           bool is_early, cudaStream_t stream) {
  constexpr int kColumns = kPackWidth<A>;
  const bool has_packs = s.count % kColumns == 0 && IsPackAligned(sums);
  LaunchShape shape = PlanSlotSums(s.groups, s.count, has_packs ? kColumns : 1);
  shape.is_early = is_early;
  return has_packs
             ? Launch(SlotSumsKernel<kColumns, A, R>, shape, stream, sums, s,
                      out)
             : Launch(SlotSumsKernel<1, A, R>, shape, stream, sums, s, out);
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

#endif  // __CUDACC__

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_CORE_CUDA_ROW_SUMS_LAUNCH_H_
