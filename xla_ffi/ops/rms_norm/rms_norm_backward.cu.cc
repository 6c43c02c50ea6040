#include <complex>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/core/cuda/row_sums_launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit {
namespace {

using rms_norm_internal::AreAligned;
using rms_norm_internal::BackwardInRegisters;
using rms_norm_internal::BackwardRows;
using rms_norm_internal::BackwardWide;
using rms_norm_internal::DispatchElements;
using rms_norm_internal::WeightBackwardColumns;
using rms_norm_internal::WeightBackwardInRegisters;

// Returns fn(Elements<T, ...>(), packs of a row).
template <typename T, typename Fn>
cudaError_t WithElements(const RmsNormBackwardArgs<T>& args, const Fn& fn) {
  const bool is_aligned =
      AreAligned(args.x, args.ct, args.weight, args.ct_sum, args.dx);
  return DispatchElements<T>(args.n, is_aligned, fn);
}

template <typename E, typename T>
BackwardRows<E> RowsOf(const RmsNormBackwardArgs<T>& args, int64_t packs,
                       void* scratch) {
  return {AsComponents(args.x),
          AsComponents(args.ct),
          args.scale,
          AsComponents(args.weight),
          AsComponents(args.ct_sum),
          AsComponents(args.dx),
          static_cast<AccumulationType<T>*>(scratch),
          args.rows,
          args.rows_per_weight,
          packs,
          1 / static_cast<double>(args.n),
          args.eps};
}

// Of x and ct.
template <typename E>
constexpr int64_t kPackSize = 2 * E::W * sizeof(typename E::R);

}  // namespace

template <typename T>
cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    return LaunchRows<BackwardInRegisters<E>, BackwardWide<E, false>>(
        RowsOf<E>(args, packs, nullptr), packs, kPackSize<E>, stream);
  });
}

template <typename T>
cudaError_t PlanRmsNormWeightBackward(const RmsNormBackwardArgs<T>& args,
                                      RmsNormWeightBackwardPlan* plan) {
  *plan = {};
  if (args.weights == 0) return cudaSuccess;
  constexpr auto kSumBytes = static_cast<int64_t>(sizeof(AccumulationType<T>));
  const int64_t weights = args.weights, rows = args.rows_per_weight;
  const int64_t count = args.n * kComponents<T>;
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    int64_t resident = 0;
    cudaError_t status;
    if (RowsFitRegisters(packs)) {
      const RowPlan of_rows = PlanRowsOfGroups(weights, rows, packs);
      plan->rows = PlanRowSums(of_rows, weights, rows, count, kSumBytes, 1);
      status = ResidentBlocks(RowSumsKernel<WeightBackwardInRegisters<E>>,
                              plan->rows.shape, &resident);
      plan->rows =
          PlanRowSums(of_rows, weights, rows, count, kSumBytes, resident);
      plan->scratch_bytes = plan->rows.sums.Size() * kSumBytes;
    } else {
      plan->columns = PlanColumnSums(weights, rows, packs, count, 1);
      status = ResidentBlocks(ColumnSumsKernel<WeightBackwardColumns<E>>,
                              plan->columns.shape, &resident);
      plan->columns = PlanColumnSums(weights, rows, packs, count, resident);
      plan->scratch_bytes = plan->columns.columns.sums.Size() * kSumBytes;
    }
    return status;
  });
}

template <typename T>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                      const RmsNormWeightBackwardPlan& plan,
                                      void* scratch, cudaStream_t stream) {
  using A = AccumulationType<T>;
  using R = ComponentType<T>;
  if (args.weights == 0) return cudaSuccess;
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    const BackwardRows<E> rows = RowsOf<E>(args, packs, scratch);
    const bool fits = RowsFitRegisters(packs);
    const RowSums& sums = fits ? plan.rows.sums : plan.columns.columns.sums;
    cudaError_t status;
    if (fits) {
      status = Launch(RowSumsKernel<WeightBackwardInRegisters<E>>,
                      plan.rows.shape, stream, rows, sums);
    } else {
      // First, because dx may take the place of x or ct.
      status = Launch(ColumnSumsKernel<WeightBackwardColumns<E>>,
                      plan.columns.shape, stream, rows, plan.columns.columns);
      if (status == cudaSuccess && rows.rows > 0) {
        status = LaunchWideRows<BackwardWide<E, true>>(rows, packs,
                                                       kPackSize<E>, stream);
      }
    }
    if (status != cudaSuccess) return status;
    return Launch(SlotSumsKernel<A, R>,
                  PlanSlotSums(args.weights, args.n * kComponents<T>), stream,
                  static_cast<const A*>(rows.sums), sums,
                  AsComponents(args.dweight));
  });
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                            \
  template cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>&,     \
                                           cudaStream_t);                     \
  template cudaError_t PlanRmsNormWeightBackward(                             \
      const RmsNormBackwardArgs<T>&, RmsNormWeightBackwardPlan*);             \
  template cudaError_t RmsNormWeightBackwardCuda(                             \
      const RmsNormBackwardArgs<T>&, const RmsNormWeightBackwardPlan&, void*, \
      cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
