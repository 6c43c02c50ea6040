// Kernels that reduce every row to a number or two and then use it on the row's
// elements, one that adds up partial sums of rows, and their launches.
//
// The first take a Row, which says what a thread does with a vector:
//
//   V                  the Vectors
//   Args               the kernels' arguments, Rows
//   kHasOther, kHasWeight, kIsAny
//                      the inputs beside x, or whether pointers say which
//   kAddsOther         whether x + other, which is Added(in), is stored in
//                      args.sum and takes the place of x
//   TermsOf(args, in)  the Terms of a vector, which are added up to a Sum: at
//                      most kTerms of them before it goes on in double
//   Row(args, row, sum)
//   Result(args, in)   what becomes a vector of Out(args)
//   Epilogue(args, row)

#ifndef XLA_FFI_OPS_RMS_NORM_CUDA_KERNELS_H_
#define XLA_FFI_OPS_RMS_NORM_CUDA_KERNELS_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/cuda/device.h"
#include "xla_ffi/ops/rms_norm/cuda/plan.h"

namespace xla_ffi_kit::rms_norm_internal {

#ifdef __CUDACC__

// The vectors of a row's inputs at one place. `other` is that of the residual
// of the forward, or of the cotangent of the backward.
template <typename Bits>
struct Inputs {
  Bits x, other, weight, ct_sum;
};

// The weight of a row. Nearly always there is only one, and a division would
// take longer than the rest of a short row.
template <typename Row>
__device__ inline auto WeightOf(const typename Row::Args& args, int64_t row) {
  if (args.rows_per_weight >= args.rows) return args.weight;
  if constexpr (Row::kIsAny) {
    return args.weight + row / args.rows_per_weight * args.n;
  } else {  // no more than 31 bits: see kMaxRows
    const unsigned number = static_cast<unsigned>(row) /
                            static_cast<unsigned>(args.rows_per_weight);
    return args.weight + int64_t{number} * args.n;
  }
}

// Rows in registers. A thread loads all of its vectors first, x before the
// weight, and only then begins to add up: what is on its way at a time is what
// the speed depends on. So there is no branch between loads, and a kernel for
// each set of operands.
template <typename Row, int kVectors>
__global__ void __launch_bounds__(kMaxRegisterThreads, 2)
    RowsInRegisters(typename Row::Args args, RowLanes lanes) {
  __shared__ typename Row::Sum partial[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = lanes.Row(blockIdx.x, thread);
  const int lane = lanes.Lane(thread);
  const int step = lanes.Step(static_cast<int>(blockDim.x));
  const int vectors = row < args.rows ? static_cast<int>(args.vectors) : 0;
  const int64_t begin = row * args.vectors + lane;
  const auto has = [&](int k) { return lane + k * step < vectors; };

  typename Row::In in[kVectors];
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kVectors; ++k) {
    in[k] = {};
    if (has(k)) in[k].x = LoadOnce(args.x, begin + k * step);
  }
  if constexpr (Row::kHasOther) {
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kVectors; ++k) {
      if (has(k)) in[k].other = LoadOnce(Row::Other(args), begin + k * step);
    }
  }
  if constexpr (Row::kHasWeight) {
    const auto* weights = WeightOf<Row>(args, row);
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kVectors; ++k) {
      if (has(k)) in[k].weight = LoadOften(weights, lane + k * step);
    }
  }

  typename Row::Terms terms = {};
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kVectors; ++k) {
    if constexpr (Row::kAddsOther) {
      in[k].x = Row::Added(in[k]);
      if (has(k)) StoreOnce(in[k].x, args.sum, begin + k * step);
    }
    terms += Row::TermsOf(args, in[k]);
  }
  const auto sum = SumOverRow(ToDouble(terms), lanes, partial);
  if (vectors == 0) return;
  const Row of_row(args, row, sum);
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kVectors; ++k) {
    if (has(k)) {
      in[k].x = Again(in[k].x);
      if constexpr (Row::kHasOther) in[k].other = Again(in[k].other);
      if constexpr (Row::kHasWeight) in[k].weight = Again(in[k].weight);
      StoreOnce(of_row.Result(args, in[k]), Row::Out(args), begin + k * step);
    }
  }
  if (lane == 0) of_row.Epilogue(args, row);
}

// A row in the shared memory of a block or a cluster. A thread reads only what
// it has copied itself, and so waits for nobody's copies.
template <typename Row>
__global__ void __launch_bounds__(kMaxSharedThreads, 1)
    RowsInShared(typename Row::Args args, RowLanes lanes) {
  using In = typename Row::In;
  __shared__ typename Row::Sum partial[32];
  __shared__ typename Row::Sum of_blocks[kLargestCluster];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int64_t row = blockIdx.x >> lanes.cluster_bits;
  const int rank = static_cast<int>(blockIdx.x) -
                   static_cast<int>(row << lanes.cluster_bits);
  const int first = rank * threads + thread;
  const int step = threads << lanes.cluster_bits;
  const int vectors = static_cast<int>(args.vectors);
  const int64_t begin = row * args.vectors + first;
  const auto has = [&](int k) { return first + k * step < vectors; };
  PackBits* const x = DynamicShared() + thread;
  PackBits* const other = x + kSharedVectors * threads;

  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedVectors; ++k) {
    if (has(k)) {
      const int64_t i = (begin + k * step) * Row::V::kWidth;
      BeginCopy(x + k * threads, args.x + i);
      if constexpr (Row::kHasOther) {
        BeginCopy(other + k * threads, Row::Other(args) + i);
      }
    }
  }
  EndStage();
  if (lanes.cluster_bits > 0) BeginCluster();
  PackBits weight[kSharedVectors];
  if constexpr (Row::kHasWeight) {
    const auto* weights = WeightOf<Row>(args, row);
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kSharedVectors; ++k) {
      weight[k] = {};
      if (has(k)) weight[k] = LoadOften(weights, first + k * step);
    }
  }
  WaitForCopies();

  typename Row::Sum sum = {};
  XLA_FFI_KIT_UNROLL((Row::kUnrolled))
  for (int k = 0; k < kSharedVectors; k += Row::kTerms) {
    typename Row::Terms terms = {};
    XLA_FFI_KIT_UNROLL()
    for (int j = k; j < k + Row::kTerms; ++j) {
      if (has(j)) {
        In in = {};
        in.x = x[j * threads];
        if constexpr (Row::kHasOther) in.other = other[j * threads];
        if constexpr (Row::kAddsOther) {
          in.x = x[j * threads] = Row::Added(in);
          StoreOnce(in.x, args.sum, begin + j * step);
        }
        terms += Row::TermsOf(args, in);
      }
    }
    sum += ToDouble(terms);
  }
  sum = SumOverRow(sum, lanes, partial);
  if (lanes.cluster_bits > 0) {
    WaitForCluster();
    sum = SumOverCluster(sum, of_blocks);
  }
  const Row of_row(args, row, sum);
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedVectors; ++k) {
    if (has(k)) {
      In in = {};
      in.x = x[k * threads];
      if constexpr (Row::kHasOther) in.other = other[k * threads];
      if constexpr (Row::kHasWeight) in.weight = Again(weight[k]);
      StoreOnce(of_row.Result(args, in), Row::Out(args), begin + k * step);
    }
  }
  if (first == 0) of_row.Epilogue(args, row);
}

// Rows of any kind, one vector after the other, in a grid-stride loop.
template <typename Row>
__global__ void __launch_bounds__(1024, 1)
    RowsReadTwice(typename Row::Args args, RowLanes lanes) {
  using V = typename Row::V;
  // Sums of a row and of the next one, so that one barrier is enough.
  __shared__ typename Row::Sum partial[2][32];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = lanes.Lane(thread);
  const int step = 1 << lanes.lane_bits;
  const int64_t stride = int64_t{gridDim.x} * lanes.rows;
  const auto *other = Row::Other(args), *ct_sum = Row::CtSum(args);
  int parity = 0;
  // The bound is the block's: all of its threads take part in every sum.
  for (int64_t first = int64_t{blockIdx.x} * lanes.rows; first < args.rows;
       first += stride, parity = 1 - parity) {
    const int64_t row = first + (thread >> lanes.lane_bits);
    const int64_t vectors = row < args.rows ? args.vectors : 0;
    const auto* weight = args.weight != nullptr && vectors > 0
                             ? WeightOf<Row>(args, row)
                             : nullptr;
    const auto load = [&](int64_t i) {
      const int64_t at = row * args.n + i;
      typename Row::In in = {};
      in.x = V::Load(args.x + at);
      if (other != nullptr) in.other = V::Load(other + at);
      if (weight != nullptr) in.weight = V::Load(weight + i);
      if (ct_sum != nullptr) in.ct_sum = V::Load(ct_sum + at);
      return in;
    };
    typename Row::Sum sum = {};
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = lane; p < vectors; p += step) {
      typename Row::In in = load(p * V::kWidth);
      if constexpr (Row::kAddsOther) {
        if (args.residual != nullptr) {
          in.x = Row::Added(in);
          V::Store(in.x, args.sum + row * args.n + p * V::kWidth);
        }
      }
      sum += ToDouble(Row::TermsOf(args, in));
    }
    sum = SumOverRow(sum, lanes, partial[parity]);
    if (vectors == 0) continue;
    const Row of_row(args, row, sum);
    XLA_FFI_KIT_UNROLL(2)
    for (int64_t p = lane; p < vectors; p += step) {
      const int64_t at = row * args.n + p * V::kWidth;
      typename Row::In in = load(p * V::kWidth);
      if constexpr (Row::kAddsOther) {  // x may be overwritten by now
        if (args.residual != nullptr) in.x = V::Load(args.sum + at);
      }
      V::Store(of_row.Result(args, in), Row::Out(args) + at);
    }
    if (lane == 0) of_row.Epilogue(args, row);
  }
}

template <typename Row>
cudaError_t LaunchReadTwice(const typename Row::Args& args,
                            cudaStream_t stream) {
  const RowPlan plan = PlanReadTwice(args.rows, args.vectors);
  return Launch(RowsReadTwice<Row>, plan.shape, stream, args, plan.lanes);
}

// For rows of full vectors. Rows that are too long for the kernels of `Row` are
// read twice, by that of `Any`.
template <typename Row, typename Any>
cudaError_t LaunchReadOnce(const typename Row::Args& args,
                           cudaStream_t stream) {
  constexpr int kArrays = Row::kHasOther ? 2 : 1;
  const auto plan_for = [&](const BlockLimits& limits) {
    return PlanReadOnce(args.rows, args.vectors, kArrays, limits);
  };
  RowPlan plan = plan_for({});
  const auto launch = [&](auto kernel) {
    return Launch(kernel, plan.shape, stream, args, plan.lanes);
  };
  if (plan.form != RowForm::kRegisters) {
    // Asking the device costs a microsecond: only long rows need to.
    const auto kernel = RowsInShared<Row>;
    const cudaError_t status = PlanOnDevice(kernel, plan_for, &plan);
    if (status != cudaSuccess) return status;
    return plan.form == RowForm::kShared ? launch(kernel)
                                         : LaunchReadTwice<Any>(args, stream);
  }
  if constexpr (kArrays == 1) {
    if (plan.vectors == 4) return launch(RowsInRegisters<Row, 4>);
  }
  return plan.vectors == 2 ? launch(RowsInRegisters<Row, 2>)
                           : launch(RowsInRegisters<Row, 1>);
}

// W columns to a thread: one, or a vector where s.n is a multiple of that. May
// be launched early.
template <int W, typename A, typename T>
__global__ void __launch_bounds__(kThreadsOfColumn* kColumnsOfBlock)
    TotalsKernel(const A* sums, PartialSums s, T* out) {
  constexpr int64_t kBlockColumns = kColumnsOfBlock * W;
  __shared__ double of_threads[kThreadsOfColumn][kBlockColumns];
  const int thread = static_cast<int>(threadIdx.x);
  const int own_column = thread % kColumnsOfBlock * W;
  const int own_partial = thread / kColumnsOfBlock;
  const int64_t column_blocks = (s.n - 1) / kBlockColumns + 1;
  WaitForKernelBefore();
  for (int64_t unit = blockIdx.x; unit < s.weights * column_blocks;
       unit += gridDim.x) {
    const int64_t weight = unit / column_blocks;
    const int64_t begin = unit % column_blocks * kBlockColumns;
    double of_thread[W] = {};
    if (begin + own_column < s.n) {
      const A* in = sums + s.Begin(weight, 0, 0) + begin + own_column;
      XLA_FFI_KIT_UNROLL(4)
      for (int64_t i = own_partial; i < s.Count(); i += kThreadsOfColumn) {
        const Pack<A, W> values = LoadPack<W>(in + i * s.n);
        for (int j = 0; j < W; ++j) {
          of_thread[j] += static_cast<double>(values.values[j]);
        }
      }
    }
    for (int j = 0; j < W; ++j) {
      of_threads[own_partial][own_column + j] = of_thread[j];
    }
    __syncthreads();
    if (thread < kBlockColumns && begin + thread < s.n) {
      double total = 0;
      for (int i = 0; i < kThreadsOfColumn; ++i) total += of_threads[i][thread];
      out[weight * s.n + begin + thread] =
          static_cast<T>(static_cast<A>(total));
    }
    __syncthreads();  // the next columns' sums go to the same place
  }
}

// `is_early` if it may begin while the kernel before it still runs.
template <typename A, typename T>
cudaError_t LaunchTotals(const A* sums, const PartialSums& s, T* out,
                         bool is_early, cudaStream_t stream) {
  constexpr int W = kPackWidth<A>;
  const bool has_vectors = s.n % W == 0 && IsPackAligned(sums);
  LaunchShape shape = PlanTotals(s.weights, s.n, has_vectors ? W : 1);
  shape.is_early = is_early;
  return has_vectors
             ? Launch(TotalsKernel<W, A, T>, shape, stream, sums, s, out)
             : Launch(TotalsKernel<1, A, T>, shape, stream, sums, s, out);
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_CUDA_KERNELS_H_
