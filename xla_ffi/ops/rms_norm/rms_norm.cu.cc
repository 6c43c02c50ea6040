#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/accumulation_type.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/rms_norm/rms_norm_cuda.h"
#include "xla_ffi/ops/rms_norm/rms_norm_row_work.h"

namespace xla_ffi_kit {
namespace {

using namespace rms_norm_internal;  // NOLINT: the kernels' own work

// Packs of W components.
template <int W, typename R>
cudaError_t LaunchForward(ForwardRows<R> args, int64_t count,
                          cudaStream_t stream) {
  args.packs = count / W;
  return LaunchRows<ForwardInRegisters<R, W>, ForwardWide<R, W>>(
      args, args.packs, W * sizeof(R), stream);
}

}  // namespace

template <typename R>
cudaError_t RmsNormCuda(const CudaRows& shape, const R* x, double eps, R* y,
                        AccumulationType<R>* scale, cudaStream_t stream) {
  if (shape.rows == 0) return cudaSuccess;
  const int64_t count = shape.n * shape.components;
  ForwardRows<R> args = {};
  args.x = x;
  args.y = y;
  args.scale = scale;
  args.rows = shape.rows;
  args.inverse_n = 1 / static_cast<double>(shape.n);
  args.eps = eps;
  const bool has_packs =
      count % kPackWidth<R> == 0 && IsPackAligned(x) && IsPackAligned(y);
  return has_packs ? LaunchForward<kPackWidth<R>>(args, count, stream)
                   : LaunchForward<1>(args, count, stream);
}

#define XLA_FFI_KIT_INSTANTIATE(R)                                        \
  template cudaError_t RmsNormCuda(const CudaRows&, const R*, double, R*, \
                                   AccumulationType<R>*, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
