// The FFI handler of cumulative operations, on the CPU.
//
// Target xla_ffi_accelerate.cumulative: x[..., n, ...] -> y like x
//
// y[k] = x[0] op ... op x[k] along `axis`; with `reverse` = 1,
// x[k] op ... op x[n - 1]. `op` is "sum", "product", "max" or "min". Integers
// wrap; floats are rounded in the order of XLA's CPU backend. The maximum and
// minimum of what has a NaN is jnp.nan.
//
// x: s8 to s64, u8 to u64, f16, bf16, f32, f64, but no float for "sum" and
// "product" with `reverse`; attributes axis: s64, op: string, reverse: s64.
// Errors are INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_HANDLER_H_
#define ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateCumulativeCpu);

#endif  // ACCELERATE_KERNELS_CUMULATIVE_CUMULATIVE_HANDLER_H_
