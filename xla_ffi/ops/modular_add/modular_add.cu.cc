#include <cstdint>
#include <type_traits>

#include "cuda_runtime.h"
#include "xla_ffi/core/cuda/launch.h"
#include "xla_ffi/core/half.h"
#include "xla_ffi/ops/modular_add/modular_add_cuda.h"
#include "xla_ffi/ops/modular_add/modular_add_pack.h"

namespace xla_ffi_kit {
namespace {

template <typename T>
cudaError_t LaunchModularAdd(const T* b, int64_t n, const T* c, int64_t m,
                             int64_t rows, T* a, cudaStream_t stream) {
  constexpr int kWidth = kPackWidth<T>;
  if (IsPackAligned(c) && IsPackAligned(a)) {
    return LaunchElementwise<kWidth>(
        rows * m, MakeModularAddPack(b, n, c, m, a, kWidth), stream);
  }
  return LaunchElementwise<1>(rows * m, MakeModularAddPack(b, n, c, m, a, 1),
                              stream);
}

}  // namespace

template <typename T>
cudaError_t ModularAddCuda(const T* b, int64_t n, const T* c, int64_t m,
                           int64_t rows, T* a, cudaStream_t stream) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    // Sums that wrap around have the same bits, so one kernel serves both.
    using U = std::make_unsigned_t<T>;
    return LaunchModularAdd(reinterpret_cast<const U*>(b), n,
                            reinterpret_cast<const U*>(c), m, rows,
                            reinterpret_cast<U*>(a), stream);
  } else {
    return LaunchModularAdd(b, n, c, m, rows, a, stream);
  }
}

#define XLA_FFI_KIT_INSTANTIATE(T)                                          \
  template cudaError_t ModularAddCuda(const T*, int64_t, const T*, int64_t, \
                                      int64_t, T*, cudaStream_t)
XLA_FFI_KIT_INSTANTIATE(Float16);
XLA_FFI_KIT_INSTANTIATE(BFloat16);
XLA_FFI_KIT_INSTANTIATE(float);
XLA_FFI_KIT_INSTANTIATE(double);
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
