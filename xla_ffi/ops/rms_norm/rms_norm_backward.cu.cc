#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_backward_row_work.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the kernels' own work

// Packs of W components.
template <int W, typename R>
cudaError_t LaunchBackward(BackwardRows<R> args, int64_t count,
                           cudaStream_t stream) {
  args.packs = count / W;
  return LaunchRows<BackwardInRegisters<R, W>, BackwardWide<R, W>>(
      args, args.packs, 2 * W * sizeof(R), stream);
}

}  // namespace

template <typename R>
cudaError_t RmsNormBackwardCuda(const CudaRows& shape,
                                const AccumulationType<R>* scale, const R* x,
                                const R* ct, double eps, R* dx,
                                cudaStream_t stream) {
  if (shape.rows == 0) return cudaSuccess;
  const int64_t count = shape.n * shape.components;
  BackwardRows<R> args = {};
  args.scale = scale;
  args.x = x;
  args.ct = ct;
  args.dx = dx;
  args.rows = shape.rows;
  args.inverse_n = 1 / static_cast<double>(shape.n);
  args.eps = eps;
  args.odd_sign = shape.components == 2 ? -1 : 1;
  const bool has_packs = count % kPackWidth<R> == 0 && IsPackAligned(x) &&
                         IsPackAligned(ct) && IsPackAligned(dx);
  return has_packs ? LaunchBackward<kPackWidth<R>>(args, count, stream)
                   : LaunchBackward<1>(args, count, stream);
}

#define XLA_FFI_KIT_INSTANTIATE(R)                                             \
  template cudaError_t RmsNormBackwardCuda(                                    \
      const CudaRows&, const AccumulationType<R>*, const R*, const R*, double, \
      R*, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
