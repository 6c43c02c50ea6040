// The CUDA kernels of the forward for rows of whole, aligned packs.
//
// A thread loads all of its packs first, x before the weight, and only then
// begins to add up: what is on its way at a time is what the speed depends on.
// So there is no branch between loads, and a kernel for each set of operands.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_FORWARD_KERNELS_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_FORWARD_KERNELS_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/async_copy.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/pack_numbers.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/row_reduce.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_row_work.h"

namespace xla_ffi_kit::rms_norm_internal {

// The operands beside x. A residual never comes without a weight.
enum class Operands { kNone, kWeight, kWeightAndResidual };

#ifdef __CUDACC__

// Whether the scale is wanted costs a branch at the end, which all threads take
// alike.
template <typename E, Operands kOperands>
struct ForwardOfPacks {
  using R = typename E::R;
  using A = typename E::A;
  static constexpr bool kHasWeight = kOperands != Operands::kNone;
  static constexpr bool kHasResidual =
      kOperands == Operands::kWeightAndResidual;

  // The weight of a row, which is nearly always the only one.
  __device__ static const R* Weight(const ForwardRows<E>& args, int64_t row) {
    if (args.rows_per_weight >= args.rows) return args.weight;
    // No more than 31 bits: see kMaxRows.
    const unsigned number = static_cast<unsigned>(row) /
                            static_cast<unsigned>(args.rows_per_weight);
    return args.weight + args.RowBegin(number);
  }

  // h = x + residual, which is also a result.
  __device__ static PackBits Sum(const PackBits& x, const PackBits& residual) {
    return Rounded<R>(E::Sum(Widened<R>(x), Widened<R>(residual)));
  }

  __device__ static A Power(const PackBits& h) {
    return E::Power(Widened<R>(h));
  }

  // y = (h * scale) * weight, in this order: h * weight may overflow.
  __device__ static PackBits Normalize(const PackBits& h, A scale,
                                       const PackBits& weight) {
    auto y = E::Scaled(Widened<R>(h), scale);
    if constexpr (kHasWeight) y = E::Product(y, Widened<R>(weight));
    return Rounded<R>(y);
  }
};

template <typename E, Operands kOperands, int kPacks>
__global__ void __launch_bounds__(kMaxRegisterThreads, 2)
    ForwardInRegisters(ForwardRows<E> args, RowLanes lanes) {
  using Of = ForwardOfPacks<E, kOperands>;
  __shared__ double partial[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = lanes.Row(blockIdx.x, thread);
  const int lane = lanes.Lane(thread);
  const int step = lanes.Step(static_cast<int>(blockDim.x));
  const int packs = row < args.rows ? static_cast<int>(args.packs) : 0;
  const int64_t begin = row * args.packs + lane;

  PackBits h[kPacks], residual[kPacks], weight[kPacks];
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kPacks; ++k) {
    h[k] = {};
    if (lane + k * step < packs) h[k] = LoadOnce(args.x, begin + k * step);
  }
  if constexpr (Of::kHasResidual) {
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kPacks; ++k) {
      residual[k] = {};
      if (lane + k * step < packs) {
        residual[k] = LoadOnce(args.residual, begin + k * step);
      }
    }
  }
  if constexpr (Of::kHasWeight) {
    const auto* weights = Of::Weight(args, row);
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kPacks; ++k) {
      weight[k] = {};
      if (lane + k * step < packs) {
        weight[k] = LoadOften(weights, lane + k * step);
      }
    }
  }

  typename E::A power = 0;
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kPacks; ++k) {
    if constexpr (Of::kHasResidual) {
      h[k] = Of::Sum(h[k], residual[k]);
      if (lane + k * step < packs) {
        StoreOnce(h[k], args.sum, begin + k * step);
      }
    }
    power += Of::Power(h[k]);
  }
  const auto scale =
      ScaleOf(args, SumOverRow(static_cast<double>(power), lanes, partial));
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kPacks; ++k) {
    if (lane + k * step < packs) {
      StoreOnce(Of::Normalize(Again(h[k]), scale, Again(weight[k])), args.y,
                begin + k * step);
    }
  }
  if (args.scale != nullptr && lane == 0 && packs > 0) args.scale[row] = scale;
}

// A row in the shared memory of a block or a cluster. A thread reads only what
// it has copied itself, and so waits for nobody's copies.
template <typename E, Operands kOperands>
__global__ void __launch_bounds__(kMaxSharedThreads, 1)
    ForwardInShared(ForwardRows<E> args, RowLanes lanes) {
  using Of = ForwardOfPacks<E, kOperands>;
  __shared__ double partial[32];
  __shared__ double of_blocks[kLargestCluster];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int64_t row = blockIdx.x >> lanes.cluster_bits;
  const int rank = static_cast<int>(blockIdx.x) -
                   static_cast<int>(row << lanes.cluster_bits);
  const int first = rank * threads + thread;
  const int step = threads << lanes.cluster_bits;
  const int packs = static_cast<int>(args.packs);
  const int64_t begin = row * args.packs + first;
  PackBits* const kept = DynamicShared<PackBits>() + thread;
  PackBits* const kept_residual = kept + kSharedPacks * threads;

  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedPacks; ++k) {
    if (first + k * step < packs) {
      BeginCopy(kept + k * threads, args.x + (begin + k * step) * E::W);
      if constexpr (Of::kHasResidual) {
        BeginCopy(kept_residual + k * threads,
                  args.residual + (begin + k * step) * E::W);
      }
    }
  }
  EndCopyGroup();
  if (lanes.cluster_bits > 0) BeginCluster();
  PackBits weight[kSharedPacks];
  const auto* weights = Of::kHasWeight ? Of::Weight(args, row) : nullptr;
  if constexpr (Of::kHasWeight) {
    XLA_FFI_KIT_UNROLL()
    for (int k = 0; k < kSharedPacks; ++k) {
      weight[k] = {};
      if (first + k * step < packs) {
        weight[k] = LoadOften(weights, first + k * step);
      }
    }
  }
  WaitForCopies();

  double sum = 0;
  XLA_FFI_KIT_UNROLL(1)  // unrolled, it needs more registers than there are
  for (int k = 0; k < kSharedPacks; k += kMaxRegisterPacks) {
    // As many products as in registers; more of them might drift.
    typename E::A power = 0;
    XLA_FFI_KIT_UNROLL()
    for (int j = k; j < k + kMaxRegisterPacks; ++j) {
      if (first + j * step < packs) {
        PackBits h = kept[j * threads];
        if constexpr (Of::kHasResidual) {
          h = Of::Sum(h, kept_residual[j * threads]);
          kept[j * threads] = h;
          StoreOnce(h, args.sum, begin + j * step);
        }
        power += Of::Power(h);
      }
    }
    sum += static_cast<double>(power);
  }
  sum = SumOverRow(sum, lanes, partial);
  if (lanes.cluster_bits > 0) {
    WaitForCluster();
    sum = SumOverCluster(sum, of_blocks);
  }
  const auto scale = ScaleOf(args, sum);
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedPacks; ++k) {
    if (first + k * step < packs) {
      StoreOnce(Of::Normalize(kept[k * threads], scale, Again(weight[k])),
                args.y, begin + k * step);
    }
  }
  if (args.scale != nullptr && first == 0) args.scale[row] = scale;
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_FORWARD_KERNELS_H_
