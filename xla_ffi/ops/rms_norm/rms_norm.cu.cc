#include <complex>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_forward_kernels.h"
#include "xla_ffi/ops/rms_norm/rms_norm_row_work.h"

namespace xla_ffi_kit {
namespace {

using rms_norm_internal::AreAligned;
using rms_norm_internal::DispatchElements;
using rms_norm_internal::ForwardInRegisters;
using rms_norm_internal::ForwardInShared;
using rms_norm_internal::ForwardOfAnyRow;
using rms_norm_internal::ForwardRows;
using rms_norm_internal::kKeepsRows;
using rms_norm_internal::Operands;

template <typename E>
cudaError_t LaunchOfAnyRow(const ForwardRows<E>& rows, cudaStream_t stream) {
  const RowPlan plan = PlanRows(rows.rows, rows.packs);
  return Launch(RowKernel<ForwardOfAnyRow<E>>, plan.shape, stream, rows,
                plan.lanes);
}

template <typename E, Operands kOperands>
cudaError_t LaunchOfWholePacks(const ForwardRows<E>& rows,
                               cudaStream_t stream) {
  constexpr int kArrays = kOperands == Operands::kWeightAndResidual ? 2 : 1;
  const auto plan_for = [&](const BlockLimits& limits) {
    return PlanWholePacks(rows.rows, rows.packs, kArrays, limits);
  };
  WholePackPlan plan = plan_for({});
  const auto launch = [&](auto kernel) {
    return Launch(kernel, plan.shape, stream, rows, plan.lanes);
  };
  if (plan.form != RowForm::kRegisters) {
    // Asking the device costs a microsecond: only long rows need to.
    const auto kernel = ForwardInShared<E, kOperands>;
    const cudaError_t status = PlanOnDevice(kernel, plan_for, &plan);
    if (status != cudaSuccess) return status;
    return plan.form == RowForm::kShared ? launch(kernel)
                                         : LaunchOfAnyRow(rows, stream);
  }
  if constexpr (kArrays == 1) {
    if (plan.packs_per_thread == 4) {
      return launch(ForwardInRegisters<E, kOperands, 4>);
    }
  }
  return plan.packs_per_thread == 2
             ? launch(ForwardInRegisters<E, kOperands, 2>)
             : launch(ForwardInRegisters<E, kOperands, 1>);
}

}  // namespace

template <typename T>
cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>& args,
                        cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  const bool is_aligned =
      AreAligned(args.x, args.weight, args.residual, args.y, args.sum);
  return DispatchElements<T>(
      args.n, is_aligned, [&](auto elements, int64_t packs) {
        using E = decltype(elements);
        const ForwardRows<E> rows = {AsComponents(args.x),
                                     AsComponents(args.weight),
                                     AsComponents(args.residual),
                                     AsComponents(args.y),
                                     AsComponents(args.sum),
                                     args.scale,
                                     args.rows,
                                     args.rows_per_weight,
                                     packs,
                                     1 / static_cast<double>(args.n),
                                     args.eps};
        if constexpr (kKeepsRows<E>) {
          if (args.weight == nullptr) {
            return LaunchOfWholePacks<E, Operands::kNone>(rows, stream);
          }
          return args.residual == nullptr
                     ? LaunchOfWholePacks<E, Operands::kWeight>(rows, stream)
                     : LaunchOfWholePacks<E, Operands::kWeightAndResidual>(
                           rows, stream);
        } else {
          return LaunchOfAnyRow(rows, stream);
        }
      });
}

#define XLA_FFI_KIT_INSTANTIATE(T) \
  template cudaError_t RmsNormCuda(const RmsNormForwardArgs<T>&, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
