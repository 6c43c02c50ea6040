#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_elements.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_dispatch.h"
#include "xla_ffi/ops/rms_norm/rms_norm_weight_row_work.h"

namespace xla_ffi_kit {

using namespace rms_norm_internal;  // NOLINT: the kernels' own work

template <typename R>
cudaError_t RmsNormWeightCuda(const RmsNormWeightCudaForward<R>& args,
                              cudaStream_t stream) {
  if (args.shape.rows == 0) return cudaSuccess;
  const int64_t count = args.shape.n * args.shape.components;
  const bool is_aligned =
      AreAligned(args.x, args.weight, args.residual, args.y, args.sum);
  return DispatchElements<R>(
      args.shape.n, args.shape.components, is_aligned, [&](auto elements) {
        using E = decltype(elements);
        const WeightForwardRows<R> rows = {
            args.x,          args.weight,
            args.residual,   args.y,
            args.sum,        args.scale,
            args.shape.rows, args.rows_per_weight,
            count / E::W,    1 / static_cast<double>(args.shape.n),
            args.eps};
        return LaunchRows<WeightForwardInRegisters<E>, WeightForwardWide<E>>(
            rows, rows.packs, E::W * sizeof(R), stream);
      });
}

#define XLA_FFI_KIT_INSTANTIATE(R)                                           \
  template cudaError_t RmsNormWeightCuda(const RmsNormWeightCudaForward<R>&, \
                                         cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
