// Addition of a repeated row, on CUDA devices.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CUDA_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CUDA_H_

#include <cstdint>

#include "cuda_runtime.h"

namespace xla_ffi_kit {

// Launches a[r, i] = b[r, i % n] + c[r, i] for `rows` rows of m elements of a
// and c, and n >= 1 (if there is anything to compute) of b, on `stream`. Types
// as ModularAdd() in modular_add.h, but the complex ones: a complex row is a
// real one of twice the length, b's too. `a` may be `c`; any alignment.
// Launches nothing for no elements; returns the launch's error.
template <typename T>
cudaError_t ModularAddCuda(const T* b, int64_t n, const T* c, int64_t m,
                           int64_t rows, T* a, cudaStream_t stream);

}  // namespace xla_ffi_kit

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_CUDA_H_
