// The FFI handler of argmax and argmin, on the CPU.
//
// Target xla_ffi_accelerate.argmax: x[..., n, ...] -> indices[..., ...]
//
// The index, along `axis`, of the first NaN, or else of the first of the
// largest elements; where `of` is "min", of the smallest. n is 1 to 2^31.
//
// x: pred, s8 to s64, u8 to u64, f16, bf16, f32, f64; indices: s32, s64, u32
// or u64; attributes axis: s64, of: "max" or "min". Errors are
// INVALID_ARGUMENT.

#ifndef ACCELERATE_KERNELS_ARGMAX_ARGMAX_HANDLER_H_
#define ACCELERATE_KERNELS_ARGMAX_ARGMAX_HANDLER_H_

#include "xla/ffi/api/ffi.h"

XLA_FFI_DECLARE_HANDLER_SYMBOL(XlaFfiAccelerateArgmaxCpu);

#endif  // ACCELERATE_KERNELS_ARGMAX_ARGMAX_HANDLER_H_
