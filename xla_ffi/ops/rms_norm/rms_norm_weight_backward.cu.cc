// dx and dweight on CUDA devices, in two steps: dx and partial sums of dweight,
// by a pipeline or, for rows of any kind, column by column; then their totals.
//
// In the pipeline, a block or cluster stays for the whole launch and goes over
// many rows of full vectors, which it reads once. While its threads work on
// some rows in registers, asynchronous copies bring the next ones into other
// stages in shared memory; each thread copies what it will read itself, and so
// waits for nobody's. Its part of dweight stays in registers: see cuda/plan.h.

#include <algorithm>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/dtypes.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/core/host_device.h"
#include "xla_ffi/ops/rms_norm/cuda/device.h"
#include "xla_ffi/ops/rms_norm/cuda/kernels.h"
#include "xla_ffi/ops/rms_norm/cuda/plan.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"

namespace xla_ffi_kit {
namespace rms_norm_internal {

// The work of a thread: kVectors vectors of each of kRows rows at a time.
template <typename V, bool kHasCtSum, int kRows, bool kHasClusters>
class Pipeline {
 public:
  static constexpr int kVectors = PipelineVectors(kRows);
  static constexpr int kStages = PipelineStages(kRows);
  using A = typename V::A;
  using Args = Rows<RmsNormBackwardArgs<typename V::Element>>;
  static constexpr int kArrays = kHasCtSum ? 3 : 2;

  __device__ Pipeline(const Args& args, A* workspace, const PartialSums& s,
                      const RowLanes& lanes)
      : args_(args), workspace_(workspace), s_(s), lanes_(lanes) {
    const int thread = static_cast<int>(threadIdx.x);
    const int rank =
        static_cast<int>(blockIdx.x & ((1U << lanes.cluster_bits) - 1));
    first_vector_ = rank * lanes.Step(threads_) + lanes.Lane(thread);
    // Numbers of rows have 31 bits, see kMaxRows: there are few registers.
    const auto rows = static_cast<unsigned>(s.rows);
    end_ = (Weight() + 1) * rows;
    row_ = Weight() * rows + Split() * RowsPerStep() +
           static_cast<unsigned>(thread >> lanes.lane_bits);
    buffer_ = DynamicShared() + thread;
  }

  __device__ void Run(Sums<double, kRows>* partial,
                      Sums<double, kRows>* of_blocks) {
    if (kHasClusters) BeginCluster();
    XLA_FFI_KIT_UNROLL()
    for (int stage = 0; stage < kStages; ++stage) {
      FillStage(stage, row_ + stage * Stride());
    }
    const auto* weights = args_.weight + Weight() * args_.n;
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kVectors; ++k) {
      PackBits weight = {};
      if (HasVector(k)) weight = LoadOften(weights, Vector(k));
      KeptWeight(k) = weight;
    }
    LoadScales(row_);
    if (kHasClusters) WaitForCluster();

    int stage = 0, parity = 0;
    for (int i = 0; i < static_cast<int>(s_.partials); ++i) {
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kVectors; ++k) dweight_[k] = {};
      // The bound is the block's: all of its threads take part in every sum.
      for (int j = 0; j < static_cast<int>(s_.steps) && BlockHasRows(); ++j) {
        DoRows(stage, partial + 32 * parity,
               of_blocks + kLargestCluster * parity);
        stage = stage + 1 < kStages ? stage + 1 : 0;
        parity = 1 - parity;
      }
      if (i + 1 == static_cast<int>(s_.partials)) LaunchNextKernel();
      StorePartialSum(i);
    }
    WaitForCopies();
  }

 private:
  // Computed anew where it is needed, which is rare.
  __device__ unsigned Unit() const {
    return static_cast<unsigned>(blockIdx.x) >> lanes_.cluster_bits;
  }
  __device__ unsigned Weight() const {
    return Unit() / static_cast<unsigned>(s_.splits);
  }
  __device__ unsigned Split() const {
    return Unit() % static_cast<unsigned>(s_.splits);
  }
  __device__ unsigned RowsPerStep() const {
    return static_cast<unsigned>(lanes_.rows * kRows);
  }
  // Between the rows of two steps.
  __device__ unsigned Stride() const {
    return static_cast<unsigned>(s_.splits) * RowsPerStep();
  }
  __device__ int Vector(int k) const {
    return first_vector_ + (k * lanes_.Step(threads_) << lanes_.cluster_bits);
  }
  __device__ bool HasVector(int k) const {
    return Vector(k) < static_cast<int>(args_.vectors);
  }
  __device__ bool HasRow(unsigned row, int r) const {
    return row + r * lanes_.rows < end_;
  }
  __device__ int64_t VectorOf(unsigned row, int r, int k) const {
    return int64_t{row + r * lanes_.rows} * static_cast<int>(args_.vectors) +
           Vector(k);
  }
  __device__ bool BlockHasRows() const {
    return row_ - (static_cast<unsigned>(threadIdx.x) >> lanes_.lane_bits) <
           end_;
  }
  __device__ PackBits* Buffer(int stage, int array, int r, int k) const {
    constexpr int kOfStage = kArrays * kRows * kVectors;
    return buffer_ +
           (stage * kOfStage + (array * kRows + r) * kVectors + k) * threads_;
  }

  // Clusters have too few registers for it.
  __device__ PackBits& KeptWeight(int k) {
    if constexpr (kHasClusters) return *Buffer(kStages, 0, 0, k);
    return weight_[k];
  }

  __device__ void FillStage(int stage, unsigned row) const {
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kVectors; ++k) {
        if (HasRow(row, r) && HasVector(k)) {
          const int64_t i = VectorOf(row, r, k) * V::kWidth;
          BeginCopy(Buffer(stage, 0, r, k), args_.x + i);
          BeginCopy(Buffer(stage, 1, r, k), args_.ct + i);
          if constexpr (kHasCtSum) {
            BeginCopy(Buffer(stage, 2, r, k), args_.ct_sum + i);
          }
        }
      }
    }
    EndStage();
  }

  __device__ void LoadScales(unsigned row) {
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      next_scale_[r] = HasRow(row, r) ? args_.scale[row + r * lanes_.rows] : 0;
    }
  }

  // Does one step: the thread's rows row_, row_ + lanes.rows, ..., from a
  // stage. It reads values that it needs twice two times, to save
  // registers.
  __device__ void DoRows(int stage, Sums<double, kRows>* partial,
                         Sums<double, kRows>* of_blocks) {
    const auto wide = [&](int array, int r, int k) {
      return V::Widened(*Buffer(stage, array, r, k));
    };
    const auto weight = [&](int k) { return V::Widened(Again(KeptWeight(k))); };
    A scale[kRows];
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) scale[r] = next_scale_[r];
    LoadScales(row_ + Stride());
    WaitForCopies<kStages - 1>();
    Sums<double, kRows> sums = {};
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      A dot = 0;
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kVectors; ++k) {
        if (HasRow(row_, r) && HasVector(k)) {
          dot += V::Dot(wide(0, r, k), V::Product(wide(1, r, k), weight(k)));
        }
      }
      sums.of[r] = static_cast<double>(dot);
    }
    sums = SumOverRow(sums, lanes_, partial);
    if (kHasClusters) sums = SumOverCluster(sums, of_blocks);
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      const A mean = static_cast<A>(scale[r] * (sums.of[r] * args_.inverse_n));
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kVectors; ++k) {
        LoadAgain();
        if (HasRow(row_, r) && HasVector(k)) {
          dweight_[k] = V::Sum(
              dweight_[k],
              V::Product(V::Scaled(wide(0, r, k), scale[r]), wide(1, r, k)));
          if constexpr (kHasClusters) LoadAgain();
          const auto g = V::Product(wide(1, r, k), weight(k));
          auto dx = V::Backward(wide(0, r, k), g, scale[r], mean);
          if constexpr (kHasCtSum) dx = V::Sum(dx, wide(2, r, k));
          StoreOnce(V::Rounded(dx), args_.dx, VectorOf(row_, r, k));
        }
      }
    }
    FillStage(stage, row_ + kStages * Stride());
    row_ += Stride();
  }

  // If the block has several rows, adds up their sums.
  __device__ void StorePartialSum(int64_t partial) const {
    const int thread = static_cast<int>(threadIdx.x);
    A* const out = workspace_ + s_.Begin(Weight(), Split(), partial);
    A* const shared = reinterpret_cast<A*>(
        DynamicShared() + kStages * kArrays * kRows * kVectors * threads_);
    A* const of_row =
        lanes_.rows == 1 ? out : shared + (thread >> lanes_.lane_bits) * s_.n;
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kVectors; ++k) {
      if (HasVector(k)) {
        constexpr int kColumns = kPackWidth<A>;
        XLA_FFI_KIT_UNROLL()
        for (int i = 0; i < V::kWidth; i += kColumns) {
          Pack<A, kColumns> sums;
          XLA_FFI_KIT_UNROLL()
          for (int j = 0; j < kColumns; ++j) {
            sums.values[j] = dweight_[k].values[i + j];
          }
          StorePack(sums, of_row + Vector(k) * V::kWidth + i);
        }
      }
    }
    if (lanes_.rows == 1) return;
    __syncthreads();
    for (int64_t c = thread; c < s_.n; c += threads_) {
      double sum = 0;
      for (int row = 0; row < lanes_.rows; ++row) {
        sum += static_cast<double>(shared[row * s_.n + c]);
      }
      out[c] = static_cast<A>(sum);
    }
    __syncthreads();  // the next partial sums go to the same place
  }

  const Args& args_;
  A* const workspace_;
  const PartialSums& s_;
  const RowLanes& lanes_;
  const int threads_ = static_cast<int>(blockDim.x);
  int first_vector_;
  unsigned row_, end_;
  PackBits* buffer_;
  PackBits weight_[kVectors];
  A next_scale_[kRows];
  typename V::Wide dweight_[kVectors];
};

template <typename V, bool kHasCtSum, int kRows, bool kHasClusters>
__global__ void __maxnreg__(MaxPipelineRegisters(kRows, kHasClusters))
    PipelineKernel(Rows<RmsNormBackwardArgs<typename V::Element>> args,
                   typename V::A* workspace, PartialSums s, RowLanes lanes) {
  // Sums of a step and of the next one, so that one barrier is enough.
  __shared__ Sums<double, kRows> partial[2 * 32];
  __shared__ Sums<double, kRows> of_blocks[2 * kLargestCluster];
  Pipeline<V, kHasCtSum, kRows, kHasClusters>(args, workspace, s, lanes)
      .Run(partial, of_blocks);
}

// A thread adds up a vector of columns.
template <typename V>
__global__ void __launch_bounds__(kColumnThreads)
    ColumnsKernel(Rows<RmsNormBackwardArgs<typename V::Element>> args,
                  typename V::A* workspace, PartialSums s,
                  int64_t column_blocks) {
  const int64_t units = s.weights * s.splits * column_blocks;
  for (int64_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const int64_t of_split = unit / column_blocks;
    const int64_t weight = of_split / s.splits, split = of_split % s.splits;
    const int64_t vector = unit % column_blocks * kColumnThreads + threadIdx.x;
    if (vector >= args.vectors) continue;
    const int64_t begin = weight * s.rows, end = begin + s.rows;
    double sums[V::kWidth] = {};
    XLA_FFI_KIT_UNROLL(4)
    for (int64_t row = begin + split; row < end; row += s.splits) {
      const int64_t i = row * args.n + vector * V::kWidth;
      const auto y =
          V::Scaled(V::Widened(V::Load(args.x + i)), args.scale[row]);
      const auto terms = V::Product(y, V::Widened(V::Load(args.ct + i)));
      for (int j = 0; j < V::kWidth; ++j) {
        sums[j] += static_cast<double>(terms.values[j]);
      }
    }
    auto* const out =
        workspace + s.Begin(weight, split, 0) + vector * V::kWidth;
    for (int j = 0; j < V::kWidth; ++j) {
      out[j] = static_cast<typename V::A>(sums[j]);
    }
  }
}

// The launches of the first step, and what they know for the second one.
template <typename T>
struct FirstStep {
  using Args = RmsNormBackwardArgs<T>;
  using A = AccumulationType<T>;

  const Args& args;
  A* const workspace;
  const int64_t most;  // partial sums of a weight
  cudaStream_t stream;

  PartialSums sums = {};
  bool lets_next_begin = false;  // early

  // Two passes over x and ct.
  template <typename V>
  cudaError_t ByColumns(const Rows<Args>& rows) {
    const auto kernel = ColumnsKernel<V>;
    const auto plan_for = [&](int64_t resident) {
      return PlanColumns(args.weights, args.rows_per_weight, args.n,
                         rows.vectors, resident, most);
    };
    int64_t resident = 0;
    cudaError_t status = ResidentUnits(kernel, plan_for(1).shape, &resident);
    if (status != cudaSuccess) return status;
    const ColumnPlan plan = plan_for(resident);
    sums = plan.sums;
    // First, because dx may take the place of x or ct.
    status = Launch(kernel, plan.shape, stream, rows, workspace, sums,
                    plan.column_blocks);
    return status == cudaSuccess ? RmsNormBackwardCuda(args, stream) : status;
  }

  template <typename V, bool kHasCtSum, int kRows, bool kHasClusters>
  cudaError_t InPipeline(const Rows<Args>& rows) {
    const auto kernel = PipelineKernel<V, kHasCtSum, kRows, kHasClusters>;
    bool is_hopper = false;
    const auto plan_for = [&](const BlockLimits& limits) {
      is_hopper = limits.is_hopper;
      return PlanPipeline(args.rows_per_weight, rows.vectors, kHasCtSum ? 3 : 2,
                          V::kWidth * sizeof(A), limits);
    };
    RowPlan plan;
    cudaError_t status = PlanOnDevice(kernel, plan_for, &plan);
    if (status != cudaSuccess) return status;
    if (plan.form != RowForm::kShared) return ByColumns<V>(rows);
    int64_t resident = 0;
    status = ResidentUnits(kernel, plan.shape, &resident);
    if (status != cudaSuccess) return status;
    sums = PlanPipelineSums(args.weights, args.rows_per_weight, args.n,
                            resident, most, &plan);
    if (plan.form != RowForm::kShared) return ByColumns<V>(rows);
    lets_next_begin = is_hopper;
    return Launch(kernel, plan.shape, stream, rows, workspace, sums,
                  plan.lanes);
  }

  // Chooses the pipeline whose plan PlanPipeline() makes for such rows.
  template <typename V, bool kHasCtSum>
  cudaError_t OfFullVectors(const Rows<Args>& rows) {
    constexpr int kOfBlock = PipelineVectors(1) * MaxPipelineThreads(1);
    return rows.vectors <= MaxPipelineThreads(2)
               ? InPipeline<V, kHasCtSum, 2, false>(rows)
           : rows.vectors <= kOfBlock ? InPipeline<V, kHasCtSum, 1, false>(rows)
                                      : InPipeline<V, kHasCtSum, 1, true>(rows);
  }

  template <typename V>
  cudaError_t operator()(V, const Rows<Args>& rows) {
    if constexpr (!V::kIsFull) {
      return ByColumns<V>(rows);
    } else {
      return args.ct_sum == nullptr ? OfFullVectors<V, false>(rows)
                                    : OfFullVectors<V, true>(rows);
    }
  }
};

}  // namespace rms_norm_internal

template <typename T>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                      void* workspace, int64_t workspace_bytes,
                                      cudaStream_t stream) {
  if (args.weights == 0) return cudaSuccess;
  auto* const sums = static_cast<AccumulationType<T>*>(workspace);
  rms_norm_internal::FirstStep<T> first = {
      args, sums,
      std::max<int64_t>(workspace_bytes / RmsNormLeastWorkspace(args), 1),
      stream};
  const auto launch = [&](auto v, const auto& rows) { return first(v, rows); };
  const cudaError_t status = rms_norm_internal::WithVectors(
      args, launch, args.x, args.ct, args.weight, args.ct_sum, args.dx);
  if (status != cudaSuccess) return status;
  return rms_norm_internal::LaunchTotals(sums, first.sums, args.dweight,
                                         first.lets_next_begin, stream);
}

#define XLA_FFI_KIT_INSTANTIATE(T)                \
  template cudaError_t RmsNormWeightBackwardCuda( \
      const RmsNormBackwardArgs<T>&, void*, int64_t, cudaStream_t)
XLA_FFI_KIT_RMS_NORM_TYPES(XLA_FFI_KIT_INSTANTIATE);

}  // namespace xla_ffi_kit
