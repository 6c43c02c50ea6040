#include "xla_ffi/ops/relu/relu.h"

#include <cstdint>

#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/relu/relu_element.h"

namespace xla_ffi_kit {

template <typename T>
void Relu(const T* x, int64_t count, T* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = ReluElement(x[i]);
}

#define XLA_FFI_KIT_INSTANTIATE(T) template void Relu(const T*, int64_t, T*)
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
