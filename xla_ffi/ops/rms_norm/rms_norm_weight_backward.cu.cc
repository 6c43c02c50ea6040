#include <algorithm>
#include <complex>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/ring_plan.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/core/cuda/row_sums_launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_launch.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_backward_kernel.h"

namespace xla_ffi_kit {
namespace {

using rms_norm_internal::BackwardRows;
using rms_norm_internal::kKeepsRows;
using rms_norm_internal::LaunchBackwardOfAnyRow;
using rms_norm_internal::RowsOf;
using rms_norm_internal::WeightBackwardColumns;
using rms_norm_internal::WeightBackwardKernel;
using rms_norm_internal::WithElements;

// The groups of rows, and the room for their sums.
struct Sums {
  int64_t groups, rows;  // rows of a group
  int64_t count;         // components of a row
  int64_t slots;         // that a group may have
};

// dx, and the sums of rows for dweight; says what is to be added up, and
// whether the kernel that does may begin early.
struct Begun {
  RowSums sums;
  bool lets_next_begin = false;
};

// Two passes, for rows of any kind.
template <typename E>
cudaError_t BeginOfAnyRow(const BackwardRows<E>& rows, const Sums& of,
                          cudaStream_t stream, Begun* begun) {
  const auto kernel = ColumnSumsKernel<WeightBackwardColumns<E>>;
  const auto plan_for = [&](int64_t resident) {
    return PlanColumnSums(of.groups, of.rows, rows.packs, of.count, resident,
                          of.slots);
  };
  int64_t resident = 0;
  cudaError_t status = ResidentUnits(kernel, plan_for(1).shape, &resident);
  if (status != cudaSuccess) return status;
  const ColumnSumsPlan plan = plan_for(resident);
  begun->sums = plan.columns.sums;
  // First, because dx may take the place of x or ct.
  status = Launch(kernel, plan.shape, stream, rows, plan.columns);
  if (status != cudaSuccess || rows.rows == 0) return status;
  return LaunchBackwardOfAnyRow(rows, stream);
}

template <typename E, bool kHasCtSum, int kPacks, int kRows>
cudaError_t BeginRing(const BackwardRows<E>& rows, const Sums& of,
                      cudaStream_t stream, Begun* begun) {
  const auto kernel = WeightBackwardKernel<E, kHasCtSum, kPacks, kRows>;
  bool is_hopper = false;
  const auto plan_for = [&](const BlockLimits& limits) {
    is_hopper = limits.is_hopper;
    return PlanRing(of.rows, rows.packs, kHasCtSum ? 3 : 2,
                    E::W * sizeof(typename E::A), limits);
  };
  RingPlan plan;
  cudaError_t status = PlanOnDevice(kernel, plan_for, &plan);
  if (status != cudaSuccess) return status;
  if (plan.fits) {
    int64_t resident = 0;
    status = ResidentUnits(kernel, plan.shape, &resident);
    if (status != cudaSuccess) return status;
    begun->sums =
        PlanRingSums(of.groups, of.rows, of.count, resident, of.slots, &plan);
  }
  if (!plan.fits) return BeginOfAnyRow(rows, of, stream, begun);
  begun->lets_next_begin = is_hopper;
  return Launch(kernel, plan.shape, stream, rows, begun->sums, plan.lanes);
}

template <typename E, bool kHasCtSum>
cudaError_t BeginOfWholePacks(const BackwardRows<E>& rows, const Sums& of,
                              cudaStream_t stream, Begun* begun) {
  // As in PlanRing().
  if (rows.packs <= MaxRingThreads(1, 2)) {
    return BeginRing<E, kHasCtSum, 1, 2>(rows, of, stream, begun);
  }
  return rows.packs <= MaxRingThreads(1, 1)
             ? BeginRing<E, kHasCtSum, 1, 1>(rows, of, stream, begun)
             : BeginRing<E, kHasCtSum, 2, 1>(rows, of, stream, begun);
}

template <typename E>
cudaError_t Begin(const BackwardRows<E>& rows, const Sums& of,
                  cudaStream_t stream, Begun* begun) {
  if constexpr (kKeepsRows<E>) {
    return rows.ct_sum == nullptr
               ? BeginOfWholePacks<E, false>(rows, of, stream, begun)
               : BeginOfWholePacks<E, true>(rows, of, stream, begun);
  } else {
    return BeginOfAnyRow(rows, of, stream, begun);
  }
}

}  // namespace

template <typename T>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                      void* workspace, int64_t workspace_bytes,
                                      cudaStream_t stream) {
  if (args.weights == 0) return cudaSuccess;
  const int64_t slots =
      std::max<int64_t>(workspace_bytes / RmsNormLeastWorkspace(args), 1);
  const Sums of = {args.weights, args.rows_per_weight, args.n * kComponents<T>,
                   slots};
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    const BackwardRows<E> rows = RowsOf<E>(args, packs, workspace);
    Begun begun;
    const cudaError_t status = Begin(rows, of, stream, &begun);
    if (status != cudaSuccess) return status;
    return LaunchSlotSums(static_cast<const AccumulationType<T>*>(rows.sums),
                          begun.sums, AsComponents(args.dweight),
                          begun.lets_next_begin, stream);
  });
}

#define XLA_FFI_KIT_INSTANTIATE(T)                \
  template cudaError_t RmsNormWeightBackwardCuda( \
      const RmsNormBackwardArgs<T>&, void*, int64_t, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
