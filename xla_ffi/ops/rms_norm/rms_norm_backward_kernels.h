// The CUDA kernels of the backward without a weight, for rows of whole, aligned
// packs: as those of rms_norm_forward_kernels.h, of two arrays.

#ifndef XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_KERNELS_H_
#define XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_KERNELS_H_

#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/async_copy.h"
#include "xla_ffi/core/cuda/pack.h"
#include "xla_ffi/core/cuda/pack_numbers.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/row_reduce.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit::rms_norm_internal {

#ifdef __CUDACC__

// dx of a pack.
template <typename E>
__device__ inline PackBits BackwardOfPack(const PackBits& x, const PackBits& ct,
                                          const ScaleAndMean<E>& of_row) {
  using R = typename E::R;
  return Rounded<R>(
      E::Backward(Widened<R>(x), Widened<R>(ct), of_row.scale, of_row.mean));
}

template <typename E, int kPacks>
__global__ void __launch_bounds__(kMaxRegisterThreads, 2)
    BackwardInRegisters(BackwardRows<E> args, RowLanes lanes) {
  using R = typename E::R;
  __shared__ TwoSums partial[32];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t row = lanes.Row(blockIdx.x, thread);
  const int lane = lanes.Lane(thread);
  const int step = lanes.Step(static_cast<int>(blockDim.x));
  const int packs = row < args.rows ? static_cast<int>(args.packs) : 0;
  const int64_t begin = row * args.packs + lane;

  PackBits x[kPacks], ct[kPacks];
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kPacks; ++k) {
    x[k] = ct[k] = {};
    if (lane + k * step < packs) {
      x[k] = LoadOnce(args.x, begin + k * step);
      ct[k] = LoadOnce(args.ct, begin + k * step);
    }
  }
  typename E::A dot = 0, power = 0;
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kPacks; ++k) {
    const auto wide = Widened<R>(x[k]);
    dot += E::Dot(wide, Widened<R>(ct[k]));
    power += E::Power(wide);
  }
  const TwoSums sums =
      SumOverRow(TwoSums{static_cast<double>(dot), static_cast<double>(power)},
                 lanes, partial);
  if (packs == 0) return;
  const ScaleAndMean<E> of_row(args, row, sums);
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kPacks; ++k) {
    if (lane + k * step < packs) {
      StoreOnce(BackwardOfPack<E>(Again(x[k]), Again(ct[k]), of_row), args.dx,
                begin + k * step);
    }
  }
}

template <typename E>
__global__ void __launch_bounds__(kMaxSharedThreads)
    BackwardInShared(BackwardRows<E> args, RowLanes lanes) {
  using R = typename E::R;
  __shared__ TwoSums partial[32];
  __shared__ TwoSums of_blocks[kLargestCluster];
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int64_t row = blockIdx.x >> lanes.cluster_bits;
  const int rank = static_cast<int>(blockIdx.x) -
                   static_cast<int>(row << lanes.cluster_bits);
  const int first = rank * threads + thread;
  const int step = threads << lanes.cluster_bits;
  const int packs = static_cast<int>(args.packs);
  const int64_t begin = row * args.packs + first;
  PackBits* const x = DynamicShared<PackBits>() + thread;
  PackBits* const ct = x + kSharedPacks * threads;

  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedPacks; ++k) {
    if (first + k * step < packs) {
      BeginCopy(x + k * threads, args.x + (begin + k * step) * E::W);
      BeginCopy(ct + k * threads, args.ct + (begin + k * step) * E::W);
    }
  }
  EndCopyGroup();
  if (lanes.cluster_bits > 0) BeginCluster();
  WaitForCopies();
  TwoSums sums = {};
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedPacks; ++k) {
    if (first + k * step < packs) {
      const auto wide = Widened<R>(x[k * threads]);
      sums += {static_cast<double>(E::Dot(wide, Widened<R>(ct[k * threads]))),
               static_cast<double>(E::Power(wide))};
    }
  }
  sums = SumOverRow(sums, lanes, partial);
  if (lanes.cluster_bits > 0) {
    WaitForCluster();
    sums = SumOverCluster(sums, of_blocks);
  }
  const ScaleAndMean<E> of_row(args, row, sums);
  XLA_FFI_KIT_UNROLL()
  for (int k = 0; k < kSharedPacks; ++k) {
    if (first + k * step < packs) {
      StoreOnce(BackwardOfPack<E>(x[k * threads], ct[k * threads], of_row),
                args.dx, begin + k * step);
    }
  }
}

#endif  // __CUDACC__

}  // namespace xla_ffi_kit::rms_norm_internal

#endif  // XLA_FFI_OPS_RMS_NORM_RMS_NORM_BACKWARD_KERNELS_H_
