// The CUDA kernel of the backward with a weight, for rows of whole, aligned
// packs: dx and dweight in one pass over x and ct.
//
// A block or cluster stays for the whole launch and goes over many rows. While
// its threads work on some rows in registers, asynchronous copies bring the
// next ones into shared memory; each thread copies what it will read itself,
// and so waits for nobody's. Its part of dweight stays in registers: see
// RowSums.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_BACKWARD_KERNEL_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_BACKWARD_KERNEL_H_

#include <cstdint>
#include <type_traits>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/async_copy.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/pack_numbers.h"
#include "xla_ffi/core/cuda/ring_plan.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/row_reduce.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit::rms_norm_internal {

#ifdef __CUDACC__

// One sum for each of the rows that a thread has at a time.
template <int kRows>
using SumsOfRows = std::conditional_t<kRows == 1, double, TwoSums>;

__device__ inline double& SumOf(double& sums, int) { return sums; }
__device__ inline double& SumOf(TwoSums& sums, int row) {
  return row == 0 ? sums.first : sums.second;
}

// The work of a thread: kPacks packs of each of kRows rows at a time.
template <typename E, bool kHasCtSum, int kPacks, int kRows>
class WeightBackwardRing {
 public:
  static constexpr int kArrays = kHasCtSum ? 3 : 2;

  __device__ WeightBackwardRing(const BackwardRows<E>& args, const RowSums& s,
                                const RowLanes& lanes)
      : args_(args), s_(s), lanes_(lanes) {
    const int thread = static_cast<int>(threadIdx.x);
    const int rank =
        static_cast<int>(blockIdx.x & ((1U << lanes.cluster_bits) - 1));
    const int step = lanes.Step(threads_);
    const unsigned group = Group(), part = Part();
    first_pack_ = rank * step + lanes.Lane(thread);
    // Numbers of rows have 31 bits, see kMaxRows: there are few registers.
    const auto rows = static_cast<unsigned>(s.rows);
    const unsigned rows_per_step = RowsPerStep();
    end_ = (group + 1) * rows;
    row_ = group * rows + part * rows_per_step +
           static_cast<unsigned>(thread >> lanes.lane_bits);
    kept_ = DynamicShared<PackBits>() + thread;
  }

  __device__ void Run(SumsOfRows<kRows>* partial,
                      SumsOfRows<kRows>* of_blocks) {
    if (lanes_.cluster_bits > 0) BeginCluster();
    BeginCopies(0, row_);
    BeginCopies(1, row_ + RowStep());
    const auto* weights = args_.weight + args_.RowBegin(Group());
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kPacks; ++k) {
      PackBits weight = {};
      if (HasPack(k)) weight = LoadOften(weights, Pack(k));
      KeptWeight(k) = weight;
    }
    LoadScales(row_);
    if (lanes_.cluster_bits > 0) WaitForCluster();

    int parity = 0;
    for (int slot = 0; slot < static_cast<int>(s_.slots_per_part); ++slot) {
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kPacks; ++k) dweight_[k] = {};
      // The bound is the block's: all of its threads take part in every sum.
      for (int i = 0; i < static_cast<int>(s_.steps_per_slot) && BlockHasRows();
           ++i) {
        DoRows(parity, partial + 32 * parity,
               of_blocks + kLargestCluster * parity);
        parity = 1 - parity;
      }
      if (slot + 1 == static_cast<int>(s_.slots_per_part)) LaunchNextKernel();
      StoreSums(slot);
    }
    WaitForCopies();
  }

 private:
  // Computed anew where it is needed, which is rare.
  __device__ unsigned Unit() const {
    return static_cast<unsigned>(blockIdx.x) >> lanes_.cluster_bits;
  }
  __device__ unsigned Group() const {
    return Unit() / static_cast<unsigned>(s_.parts);
  }
  __device__ unsigned Part() const {
    return Unit() % static_cast<unsigned>(s_.parts);
  }
  __device__ unsigned RowsPerStep() const {
    return static_cast<unsigned>(lanes_.rows * kRows);
  }
  __device__ unsigned RowStep() const {
    return static_cast<unsigned>(s_.parts) * RowsPerStep();
  }
  __device__ int Pack(int k) const {
    return first_pack_ + (k * lanes_.Step(threads_) << lanes_.cluster_bits);
  }
  __device__ bool HasPack(int k) const {
    return Pack(k) < static_cast<int>(args_.packs);
  }
  __device__ bool HasRow(unsigned row, int r) const {
    return row + r * lanes_.rows < end_;
  }
  __device__ int64_t PackOf(unsigned row, int r, int k) const {
    return int64_t{row + r * lanes_.rows} * static_cast<int>(args_.packs) +
           Pack(k);
  }
  __device__ bool BlockHasRows() const {
    return row_ - (static_cast<unsigned>(threadIdx.x) >> lanes_.lane_bits) <
           end_;
  }
  __device__ PackBits* Kept(int stage, int array, int r, int k) const {
    constexpr int kOfStage = kArrays * kRows * kPacks;
    return kept_ +
           (stage * kOfStage + (array * kRows + r) * kPacks + k) * threads_;
  }

  // One pack stays in a register. Two would leave no room for the rest.
  static constexpr bool kKeepsWeightShared = kPacks > 1;

  __device__ PackBits& KeptWeight(int k) {
    if constexpr (kKeepsWeightShared) return *Kept(kRingStages, 0, 0, k);
    return weight_[k];
  }
  __device__ PackBits Weight(int k) { return Again(KeptWeight(k)); }

  __device__ void BeginCopies(int stage, unsigned row) const {
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kPacks; ++k) {
        if (HasRow(row, r) && HasPack(k)) {
          const int64_t i = PackOf(row, r, k) * E::W;
          BeginCopy(Kept(stage, 0, r, k), args_.x + i);
          BeginCopy(Kept(stage, 1, r, k), args_.ct + i);
          if constexpr (kHasCtSum) {
            BeginCopy(Kept(stage, 2, r, k), args_.ct_sum + i);
          }
        }
      }
    }
    EndCopyGroup();
  }

  __device__ void LoadScales(unsigned row) {
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      next_scale_[r] = HasRow(row, r) ? args_.scale[row + r * lanes_.rows] : 0;
    }
  }

  // Does one step: the thread's rows row_, row_ + lanes.rows, ..., from one of
  // the two stages. It reads values that it needs twice two times, to save
  // registers.
  __device__ void DoRows(int stage, SumsOfRows<kRows>* partial,
                         SumsOfRows<kRows>* of_blocks) {
    A scale[kRows];
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) scale[r] = next_scale_[r];
    LoadScales(row_ + RowStep());
    WaitForCopies<1>();
    SumsOfRows<kRows> sums = {};
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      A dot = 0;
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kPacks; ++k) {
        if (HasRow(row_, r) && HasPack(k)) {
          dot += E::Dot(Widened<R>(*Kept(stage, 0, r, k)),
                        E::Product(Widened<R>(*Kept(stage, 1, r, k)),
                                   Widened<R>(Weight(k))));
        }
      }
      SumOf(sums, r) = static_cast<double>(dot);
    }
    sums = SumOverRow(sums, lanes_, partial);
    if (lanes_.cluster_bits > 0) sums = SumOverCluster(sums, of_blocks);
    XLA_FFI_KIT_UNROLL()
    for (int r = 0; r < kRows; ++r) {
      const A mean =
          static_cast<A>(scale[r] * (SumOf(sums, r) * args_.inverse_n));
      XLA_FFI_KIT_UNROLL()
      for (int k = 0; k < kPacks; ++k) {
        LoadAgain();
        if (HasRow(row_, r) && HasPack(k)) {
          const auto x = [&] { return Widened<R>(*Kept(stage, 0, r, k)); };
          const auto ct = [&] { return Widened<R>(*Kept(stage, 1, r, k)); };
          dweight_[k] =
              E::Sum(dweight_[k], E::Product(E::Scaled(x(), scale[r]), ct()));
          if constexpr (kPacks > 1) LoadAgain();
          const auto g = E::Product(ct(), Widened<R>(Weight(k)));
          auto dx = E::Backward(x(), g, scale[r], mean);
          if constexpr (kHasCtSum) {
            dx = E::Sum(dx, Widened<R>(*Kept(stage, 2, r, k)));
          }
          StoreOnce(Rounded<R>(dx), args_.dx, PackOf(row_, r, k));
        }
      }
    }
    BeginCopies(stage, row_ + 2 * RowStep());
    row_ += RowStep();
  }

  // If the block has several rows, adds up their sums.
  __device__ void StoreSums(int64_t slot) const {
    const int thread = static_cast<int>(threadIdx.x);
    A* const out = args_.sums + s_.SlotBegin(Group(), Part(), slot);
    A* const shared =
        reinterpret_cast<A*>(DynamicShared<PackBits>() +
                             kRingStages * kArrays * kRows * kPacks * threads_);
    A* const own = lanes_.rows == 1
                       ? out
                       : shared + (thread >> lanes_.lane_bits) * s_.count;
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kPacks; ++k) {
      if (HasPack(k)) {
        constexpr int kColumns = kPackBytes / static_cast<int>(sizeof(A));
        XLA_FFI_KIT_UNROLL()
        for (int i = 0; i < E::W; i += kColumns) {
          xla_ffi_kit::Pack<A, kColumns> sums;
          XLA_FFI_KIT_UNROLL()
          for (int j = 0; j < kColumns; ++j) {
            sums.values[j] = dweight_[k].values[i + j];
          }
          StorePack(sums, own + Pack(k) * E::W + i);
        }
      }
    }
    if (lanes_.rows == 1) return;
    __syncthreads();
    for (int64_t c = thread; c < s_.count; c += threads_) {
      out[c] = SumOfRows(shared, lanes_.rows, s_.count, c);
    }
    __syncthreads();  // the next slot's sums go to the same place
  }

  using R = typename E::R;
  using A = typename E::A;

  const BackwardRows<E>& args_;
  const RowSums& s_;
  const RowLanes& lanes_;
  const int threads_ = static_cast<int>(blockDim.x);
  int first_pack_;
  unsigned row_, end_;
  PackBits* kept_;
  PackBits weight_[kPacks];
  A next_scale_[kRows];
  PackNumbers<R> dweight_[kPacks];
};

template <typename E, bool kHasCtSum, int kPacks, int kRows>
__global__ void __maxnreg__(MaxRingRegisters(kPacks))
    WeightBackwardKernel(BackwardRows<E> args, RowSums s, RowLanes lanes) {
  // Sums of a step and of the next one, so that one barrier is enough.
  __shared__ SumsOfRows<kRows> partial[2 * 32];
  __shared__ SumsOfRows<kRows> of_blocks[2 * kLargestCluster];
  WeightBackwardRing<E, kHasCtSum, kPacks, kRows>(args, s, lanes)
      .Run(partial, of_blocks);
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_WEIGHT_BACKWARD_KERNEL_H_
