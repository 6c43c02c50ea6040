#include "xla_ffi/ops/modular_add/modular_add.h"

#include <algorithm>
#include <complex>
#include <cstdint>

#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/modular_add/modular_add_element.h"

namespace xla_ffi_kit {

template <typename T>
void ModularAdd(const T* b, int64_t n, const T* c, int64_t begin, int64_t end,
                T* a) {
  // Whole runs of b, so that the inner loop has no remainder in it.
  for (int64_t i = begin; i < end;) {
    const int64_t offset = i % n;
    const int64_t run = std::min(n - offset, end - i);
    for (int64_t j = 0; j < run; ++j) {
      a[i + j] = AddElements(b[offset + j], c[i + j]);
    }
    i += run;
  }
}

#define XLA_FFI_KIT_INSTANTIATE(T) \
  template void ModularAdd(const T*, int64_t, const T*, int64_t, int64_t, T*)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
XLA_FFI_KIT_INSTANTIATE(std::complex<float>);
XLA_FFI_KIT_INSTANTIATE(std::complex<double>);
XLA_FFI_KIT_INSTANTIATE(int8_t);
XLA_FFI_KIT_INSTANTIATE(int16_t);
XLA_FFI_KIT_INSTANTIATE(int32_t);
XLA_FFI_KIT_INSTANTIATE(int64_t);
XLA_FFI_KIT_INSTANTIATE(uint8_t);
XLA_FFI_KIT_INSTANTIATE(uint16_t);
XLA_FFI_KIT_INSTANTIATE(uint32_t);
XLA_FFI_KIT_INSTANTIATE(uint64_t);
#undef XLA_FFI_KIT_INSTANTIATE

}  // namespace xla_ffi_kit
