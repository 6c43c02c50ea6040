// The FFI handler of membership, on the CPU.
//
// Target xla_ffi_accelerate.isin: (element[..., n], test[..., m]) -> is_in[...,
// n]
//
// Whether each element equals one of its row's tests. -0.0 equals 0.0, NaN
// equals nothing.
//
// element: pred, s8 to s64, u8 to u64, f16, bf16, f32, f64; test: like element
// except in the last dimension; is_in: pred. Errors are INVALID_ARGUMENT;
// RESOURCE_EXHAUSTED when memory is short.

#ifndef ACCELERATE_KERNELS_ISIN_ISIN_HANDLER_H_
#define ACCELERATE_KERNELS_ISIN_ISIN_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateIsinCpu);

#endif  // ACCELERATE_KERNELS_ISIN_ISIN_HANDLER_H_
