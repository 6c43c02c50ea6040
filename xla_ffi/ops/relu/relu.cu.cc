#include <cstdint>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/relu/relu_cuda.h"
#include "xla_ffi/ops/relu/relu_pack.h"

namespace xla_ffi_kit {

template <typename T>
cudaError_t ReluCuda(const T* x, int64_t count, T* y, cudaStream_t stream) {
  const ReluPack<T> step = {x, y};
  if (IsPackAligned(x) && IsPackAligned(y)) {
    return LaunchElementwise<kPackWidth<T>>(count, step, stream);
  }
  return LaunchElementwise<1>(count, step, stream);
}

#define XLA_FFI_KIT_INSTANTIATE(T) \
  template cudaError_t ReluCuda(const T*, int64_t, T*, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float8E5M2);
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(int8_t);
XLA_FFI_KIT_INSTANTIATE(int16_t);
XLA_FFI_KIT_INSTANTIATE(int32_t);
XLA_FFI_KIT_INSTANTIATE(int64_t);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
