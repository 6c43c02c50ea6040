#include <complex>
#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/components.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/cuda/row_plan.h"
#include "xla_ffi/core/cuda/rows.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_kernels.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_launch.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"

namespace xla_ffi_kit {
namespace rms_norm_internal {

template <typename E>
cudaError_t LaunchBackwardOfAnyRow(const BackwardRows<E>& rows,
                                   cudaStream_t stream) {
  const RowPlan plan = PlanRows(rows.rows, rows.packs);
  return Launch(RowKernel<BackwardOfAnyRow<E>>, plan.shape, stream, rows,
                plan.lanes);
}

#define XLA_FFI_KIT_INSTANTIATE(...)           \
  template cudaError_t LaunchBackwardOfAnyRow( \
      const BackwardRows<Elements<__VA_ARGS__>>&, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16, 8, 8);
XLA_FFI_KIT_INSTANTIATE(Float16, 1, 1);
XLA_FFI_KIT_INSTANTIATE(BFloat16, 8, 8);
XLA_FFI_KIT_INSTANTIATE(BFloat16, 1, 1);
XLA_FFI_KIT_INSTANTIATE(float, 4, 4);
XLA_FFI_KIT_INSTANTIATE(float, 1, 1);
XLA_FFI_KIT_INSTANTIATE(double, 1, 1);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>, 2, 1);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>, 2, 1);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace rms_norm_internal

namespace {

using rms_norm_internal::BackwardInRegisters;
using rms_norm_internal::BackwardInShared;
using rms_norm_internal::BackwardRows;
using rms_norm_internal::kKeepsRows;
using rms_norm_internal::LaunchBackwardOfAnyRow;
using rms_norm_internal::RowsOf;
using rms_norm_internal::WithElements;

template <typename E>
cudaError_t LaunchOfWholePacks(const BackwardRows<E>& rows,
                               cudaStream_t stream) {
  const auto plan_for = [&](const BlockLimits& limits) {
    return PlanWholePacks(rows.rows, rows.packs, /*arrays=*/2, limits);
  };
  WholePackPlan plan = plan_for({});
  const auto launch = [&](auto kernel) {
    return Launch(kernel, plan.shape, stream, rows, plan.lanes);
  };
  if (plan.form != RowForm::kRegisters) {
    const auto kernel = BackwardInShared<E>;
    const cudaError_t status = PlanOnDevice(kernel, plan_for, &plan);
    if (status != cudaSuccess) return status;
    return plan.form == RowForm::kShared ? launch(kernel)
                                         : LaunchBackwardOfAnyRow(rows, stream);
  }
  return plan.packs_per_thread == 2 ? launch(BackwardInRegisters<E, 2>)
                                    : launch(BackwardInRegisters<E, 1>);
}

}  // namespace

template <typename T>
cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>& args,
                                cudaStream_t stream) {
  if (args.rows == 0) return cudaSuccess;
  return WithElements(args, [&](auto elements, int64_t packs) {
    using E = decltype(elements);
    const BackwardRows<E> rows = RowsOf<E>(args, packs, nullptr);
    if constexpr (kKeepsRows<E>) {
      return LaunchOfWholePacks(rows, stream);
    } else {
      return LaunchBackwardOfAnyRow(rows, stream);
    }
  });
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                        \
  template cudaError_t RmsNormBackwardCuda(const RmsNormBackwardArgs<T>&, \
                                           cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
