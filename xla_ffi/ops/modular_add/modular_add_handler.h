// The FFI handlers of the addition of a repeated row, on the CPU and on CUDA
// devices.
//
// Target xla_ffi_kit.modular_add: (b T[..., n], c T[..., m]) -> a T[..., m],
//
//   a[..., i] = b[..., i % n] + c[..., i]
//
// with the same batch axes [...] in all three. T: f16, bf16, f32, f64, c64,
// c128, s8 to s64, u8 to u64. Errors are INVALID_ARGUMENT: rank 0, batch axes
// or dtypes that differ, another dtype, n = 0 with m > 0. The CUDA handler
// returns the error of its launch too, and may be captured in a command buffer.

#ifndef XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_HANDLER_H_
#define XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitModularAddCpu);
XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiKitModularAddCuda);

#endif  // XLA_FFI_OPS_MODULAR_ADD_MODULAR_ADD_HANDLER_H_
