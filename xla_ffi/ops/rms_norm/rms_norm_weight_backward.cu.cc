#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/row_sums.h"
#include "xla_ffi/core/cuda/row_sums_launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_dispatch.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the kernels' own work

// fn(Elements<R, ...>(), packs of a row).
template <typename R, typename Fn>
cudaError_t WithElements(const RmsNormWeightCudaBackward<R>& args,
                         const Fn& fn) {
  const bool is_aligned =
      AreAligned(args.x, args.weight, args.ct, args.ct_sum, args.dx);
  return DispatchElements<R>(args.shape.n, args.shape.components, is_aligned,
                             [&](auto elements) -> cudaError_t {
                               using E = decltype(elements);
                               const int64_t packs =
                                   args.shape.n * args.shape.components / E::W;
                               return fn(elements, packs);
                             });
}

}  // namespace

template <typename R>
cudaError_t PlanRmsNormWeightBackward(const RmsNormWeightCudaBackward<R>& args,
                                      RmsNormWeightCudaPlan* plan) {
  *plan = {};
  if (args.weights == 0) return cudaSuccess;
  constexpr auto kSumBytes = static_cast<int64_t>(sizeof(AccumulationType<R>));
  const int64_t rows = args.shape.rows / args.weights;
  const int64_t count = args.shape.n * args.shape.components;
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    const bool fits = RowsFitRegisters(packs);
    int64_t resident = 0;
    cudaError_t status;
    if (fits) {
      const RowPlan of_rows = PlanRowsOfGroups(args.weights, rows, packs);
      plan->rows =
          PlanRowSums(of_rows, args.weights, rows, count, kSumBytes, 1);
      status = ResidentBlocks(RowSumsKernel<WeightBackwardInRegisters<E>>,
                              plan->rows.shape, &resident);
      plan->rows =
          PlanRowSums(of_rows, args.weights, rows, count, kSumBytes, resident);
      plan->scratch_bytes = plan->rows.sums.Size() * kSumBytes;
    } else {
      plan->columns = PlanColumnSums(args.weights, rows, packs, count, 1);
      status = ResidentBlocks(ColumnSumsKernel<WeightGradientColumns<E>>,
                              plan->columns.shape, &resident);
      plan->columns =
          PlanColumnSums(args.weights, rows, packs, count, resident);
      plan->scratch_bytes = plan->columns.columns.sums.Size() * kSumBytes;
    }
    return status;
  });
}

template <typename R>
cudaError_t RmsNormWeightBackwardCuda(const RmsNormWeightCudaBackward<R>& args,
                                      const RmsNormWeightCudaPlan& plan,
                                      void* scratch, cudaStream_t stream) {
  using A = AccumulationType<R>;
  if (args.weights == 0) return cudaSuccess;
  const int64_t count = args.shape.n * args.shape.components;
  WeightBackwardRows<R> rows = {args.scale,
                                args.x,
                                args.weight,
                                args.ct,
                                args.ct_sum,
                                args.dx,
                                static_cast<A*>(scratch),
                                args.shape.rows,
                                args.shape.rows / args.weights,
                                /*packs=*/0,
                                1 / static_cast<double>(args.shape.n)};
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    rows.packs = packs;
    const bool fits = RowsFitRegisters(packs);
    const RowSums& sums = fits ? plan.rows.sums : plan.columns.columns.sums;
    cudaError_t status;
    if (fits) {
      status = Launch(RowSumsKernel<WeightBackwardInRegisters<E>>,
                      plan.rows.shape, stream, rows, sums);
    } else {
      // First, because dx may take the place of x or ct.
      status = Launch(ColumnSumsKernel<WeightGradientColumns<E>>,
                      plan.columns.shape, stream, rows, plan.columns.columns);
      if (status == cudaSuccess && rows.rows > 0) {
        status = LaunchWideRows<WeightBackwardWide<E>>(
            rows, packs, 2 * E::W * sizeof(R), stream);
      }
    }
    if (status != cudaSuccess) return status;
    return Launch(SlotSumsKernel<A, R>, PlanSlotSums(args.weights, count),
                  stream, static_cast<const A*>(rows.sums), sums, args.dweight);
  });
}

#define XLA_FFI_KIT_INSTANTIATE(R)                                       \
  template cudaError_t PlanRmsNormWeightBackward(                        \
      const RmsNormWeightCudaBackward<R>&, RmsNormWeightCudaPlan*);      \
  template cudaError_t RmsNormWeightBackwardCuda(                        \
      const RmsNormWeightCudaBackward<R>&, const RmsNormWeightCudaPlan&, \
      void*, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
